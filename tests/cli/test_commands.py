"""Requirements for every command: help with an example, --json or --dry-run, exit codes, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from clerk.cli import cli, reconcile_pipeline
from clerk.cli.group import GroupWithPlugins
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.docs.commands_page import PAGE, page

ROOT = Path(__file__).parents[2]
# Commands that run until they are stopped: neither --json nor --dry-run applies.
SERVICES = {"clerk dashboard", "clerk demo", "clerk serve", "clerk up", "clerk worker"}
REPORTS = {
    "clerk alert list",
    "clerk completion",
    "clerk config",
    "clerk db status",
    "clerk db url",
    "clerk db verify",
    "clerk doctor",
    "clerk document pdf",
    "clerk legacy inspect",
    "clerk metrics",
    "clerk pipeline-status",
    "clerk plugins",
    "clerk search",
    "clerk search-index status",
    "clerk site check",
    "clerk site detect",
    "clerk site export",
    "clerk site list",
    "clerk site show",
    "clerk site skipped",
    "clerk status",
    "clerk verify",
    "clerk votes export",
    "clerk why",
}


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")
    elif not command.hidden:
        yield path, command


ALL = dict(commands(cli, "clerk"))


@pytest.fixture(params=ALL)
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_help_has_an_example_that_names_the_command(command: str, clerk_command: Clerk) -> None:
    result = clerk_command(*command.split()[1:], "--help")
    assert result.code == 0
    _, heading, examples = result.out.partition("Example")
    assert heading
    assert command in examples


def test_the_help_lists_every_command_once_by_topic_with_its_whole_sentence(clerk_command: Clerk) -> None:
    assert isinstance(cli, GroupWithPlugins)
    assert sorted(name for names in cli.topics.values() for name in names) == sorted(cli.built_in)
    for path in ((), ("plugins",), ("site",)):
        shown = clerk_command(*path, "--help").out
        assert "..." not in shown.partition("\n")[2], "no sentence is cut"
    assert "\nSee the state:\n  status " in clerk_command("--help").out


def test_reports_have_json_and_changes_have_a_dry_run(command: str) -> None:
    options = {option for parameter in ALL[command].params for option in parameter.opts}
    if command in REPORTS:
        assert "--json" in options or command == "clerk completion", "a script for a shell"
    elif command not in SERVICES:
        assert "--dry-run" in options, "if it is a report, add it to REPORTS"


def test_every_option_has_help(command: str) -> None:
    for parameter in ALL[command].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.opts


def test_the_commands_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.docs.commands_page"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["db", "up", "--to", "soon"],
        ["db", "up", "--to", "-1"],
        ["config", "--nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_exit_code_2(arguments: list[str], clerk_command: Clerk) -> None:
    outcome = clerk_command(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert "Error: " in outcome.err or outcome.err.startswith("clerk: no command ")


def test_an_invalid_setting_has_exit_code_2(
    command: str, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://me:s3cret@db/clerk")
    needed = {
        "clerk cancel": ["x"],
        "clerk new": ["x", "--yes"],
        "clerk purge": ["x"],
        "clerk retry": ["x"],
        "clerk rewind": ["x", "ocr"],
        "clerk pause": ["x"],
        "clerk why": ["x"],
    }
    outcome = clerk_command(*command.split()[1:], *needed.get(command, []))
    # It reports an invalid setting among its findings.
    assert outcome.code == (1 if command == "clerk doctor" else 2), outcome
    assert "s3cret" not in outcome.out + outcome.err
    assert "Traceback" not in outcome.err


def test_an_unreachable_database_has_exit_code_3(clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:s3cret@localhost:1/clerk")
    for arguments in (["db", "up"], ["db", "status"], ["db", "verify", "--json"], ["verify"], ["status"]):
        outcome = clerk_command(*arguments)
        assert outcome.code == 3
        if "--json" in arguments:
            assert json.loads(outcome.out)["error"]["code"] == "DatabaseUnreachable"
        else:
            assert outcome.out == ""
        assert outcome.err.startswith(
            "clerk: the database at postgresql://me:***@localhost:1/clerk cannot be reached ("
        )
        assert outcome.err.count("\n") == 1
        assert "s3cret" not in outcome.out + outcome.err


@pytest.mark.parametrize("arguments", [["--debug", "db", "status"], ["db", "status", "--debug"]], ids=" ".join)
def test_debug_shows_the_traceback(arguments: list[str], clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:s3cret@localhost:1/clerk")
    outcome = clerk_command(*arguments)
    assert outcome.code == 3
    assert "Traceback" in outcome.err
    assert "s3cret" not in outcome.err


def test_an_unexpected_error_asks_for_a_report(clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("clerk.config.load", broken)
    outcome = clerk_command("config")
    assert outcome.code == 1
    assert outcome.err == ("clerk: unexpected RuntimeError (two lines): please report it with the output of --debug.\n")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@pytest.mark.parametrize("how", ["module", "script"])
def test_it_runs_as_module_and_as_script(how: str, database: Url) -> None:
    script = "import sys; sys.argv[0] = 'clerk'; from clerk.cli import main; main()"
    start = ["-m", "clerk"] if how == "module" else ["-c", script]
    ran = subprocess.run(
        [sys.executable, *start, "db", "status", "--json"],
        env=environment(DATABASE_URL=database),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout)["database"] == "ours"
    assert ran.stderr == ""


def test_a_closed_pipe_is_no_error() -> None:
    """clerk config | head -0"""
    with subprocess.Popen(
        [sys.executable, "-m", "clerk", "config"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


def test_version(clerk_command: Clerk) -> None:
    outcome = clerk_command("--version")
    assert outcome.code == 0
    assert "version" in outcome.out


def test_clerk_reconcile_shows_its_own_usage(
    clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["/usr/bin/clerk-reconcile", *arguments])
        with pytest.raises(SystemExit) as raised:
            reconcile_pipeline.main()
        captured = capsys.readouterr()
        return raised.value.code, captured.out, captured.err

    for option in ("--help", "-h"):
        code, out, _ = run(option)
        assert (code, out.splitlines()[0]) == (0, "Usage: clerk-reconcile [OPTIONS]")
        assert "--threshold-hours" in out
    code, _, err = run("--nonsense")
    assert code == 2
    assert "Usage: clerk-reconcile [OPTIONS]" in err
    monkeypatch.setenv("DATABASE_URL", "postgresql:///?host=/nowhere")
    code, _, err = run("--dry-run")
    assert code == 3
    assert err.startswith("clerk: the database at ")
