from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import clerk.cli


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Clerk = Callable[..., Outcome]


@pytest.fixture
def clerk_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Clerk:
    """Call it with arguments as a person types them: `clerk_command("db", "up")`."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["clerk", *arguments])
        with pytest.raises(SystemExit) as leaving:
            clerk.cli.main()
        captured = capsys.readouterr()
        code = leaving.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run
