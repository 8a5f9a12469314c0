from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import clerk.cli


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Clerk = Callable[..., Result]


@pytest.fixture
def clerk_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Clerk:
    """Runs a command: `clerk_command("db", "up")`."""

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["clerk", *arguments])
        with pytest.raises(SystemExit) as raised:
            clerk.cli.main()
        captured = capsys.readouterr()
        code = raised.value.code
        return Result(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run
