"""`clerk completion`, in real shells, and the names that are completed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import psycopg
import pytest
from click.shell_completion import ShellComplete

from clerk.cli import cli
from clerk.cli.completion import CompletedName
from clerk.cli.group import COMPLETE_VARIABLE
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.helpers import add_site

ROOT = Path(__file__).parents[2]


@pytest.fixture
def _completing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPLETE_VARIABLE, "bash_complete")


def complete(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    completer = ShellComplete(cli, {}, "clerk", COMPLETE_VARIABLE)
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.usefixtures("_completing")
def test_commands_options_and_names() -> None:
    assert complete("stat") == ["status"]
    assert complete("pause", "--queue", "c") == ["compilation", "coordinator"]
    assert complete("worker", "--queues", "ocr,f") == ["ocr,fetch"]
    assert complete("worker", "--queues", "ocr,o") == [], "a queue is offered once"
    assert complete("retry", "x", "--stage", "o") == ["ocr"]
    assert complete("rewind", "x", "--to", "extr") == ["extraction"]
    assert complete("site", "add", "x", "--scraper", "primeg") == ["primegov"]
    assert "PdfTimeout" in complete("failures", "--error", "Pdf")
    assert complete("doctor", "--js") == ["--json"]


@pytest.mark.usefixtures("_completing")
def test_sites(connection: psycopg.Connection, database: Url, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("springfield", "springdale", "shelbyville"):
        add_site(connection, name, documents=0)
    monkeypatch.setenv("DATABASE_URL", database)
    assert complete("why", "spring") == ["springdale", "springfield"]
    assert complete("site", "show", "sh") == ["shelbyville"]
    assert complete("search", "--site", "sh") == ["shelbyville"]
    assert complete("site", "add", "sh") == [], "a new site has a new name"
    monkeypatch.setenv("DATABASE_URL", "postgresql://me@127.0.0.1:1/clerk")
    assert complete("why", "spring") == []


@pytest.mark.usefixtures("_completing")
def test_completing_does_not_create_a_database(tmp_path: Path) -> None:
    assert complete("why", "spring") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_completing")
def test_every_parameter_that_names_a_site_is_completed() -> None:
    def incomplete(command: click.Command, path: str) -> list[str]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            below = ((name, command.get_command(context, name)) for name in command.list_commands(context))
            return [found for name, sub in below if sub for found in incomplete(sub, f"{path} {name}")]
        return [
            f"{path} {parameter.name}"
            for parameter in command.params
            if parameter.name in ("site", "sites", "subdomain")
            and not isinstance(parameter.type, (CompletedName, click.Choice))
        ]

    assert incomplete(cli, "clerk") == ["clerk new subdomain", "clerk site add subdomain"]


def run_shell(shell: str, script: str, folder: Path, url: Url) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "DATABASE_URL": url, "HOME": str(folder)}
    done = subprocess.run([shell, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        (
            "bash",
            """source completions; complete -p clerk > /dev/null; COMP_WORDS=(clerk why spring); COMP_CWORD=2
            _clerk_completion clerk; echo "${COMPREPLY[@]}" """,
        ),
        ("fish", "source completions; complete -C 'clerk why spring'"),
        # zsh completes in its line editor only: the words come from a function that takes the place of compadd.
        (
            "zsh",
            """compdef() {}; compadd() { print -- ${(P)@[-1]} }; words=(clerk why spring); CURRENT=3
            source completions; _clerk_completion""",
        ),
    ],
    ids=["bash", "fish", "zsh"],
)
def test_in_a_real_shell(
    shell: str, script: str, clerk_command: Clerk, connection: psycopg.Connection, database: Url, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    add_site(connection, "springfield", documents=0)
    (tmp_path / "completions").write_text(clerk_command("completion", shell).out)
    assert "springfield" in run_shell(shell, script, tmp_path, database)
