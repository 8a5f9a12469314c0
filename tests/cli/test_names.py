"""Unknown names of sites, commands, queues, stages, error codes and settings: exit code 2, with the nearest name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import psycopg
import pytest

from clerk.cli import cli
from clerk.suggestions import UnknownName, near_names, require_known, unknown_name
from tests.cli.conftest import Clerk
from tests.cli.test_commands import ALL
from tests.conftest import Url

ROOT = Path(__file__).parents[2]
SITE_PARAMETERS = {"site", "sites", "subdomain"}
NEW_SITES = {"clerk new", "clerk site add"}
"""Their SUBDOMAIN is the name of a site that does not exist yet."""
NEEDED = {
    "clerk alert add": ["an-alert", "words", "--feed"],
    "clerk search": ["words"],
    "clerk site date": ["a.pdf", "2024-03-05"],
    "clerk site edit": ["--name", "X"],
}
"""Arguments without which a command asks for them before it looks at the site."""

CREATE = {"clerk alert add"}
"""They create a database if there is none."""
WITHOUT_DATABASE = {"clerk pipeline-status", "clerk search", "clerk status", "clerk votes export"}
"""They say more than that there is none."""


def site_parameters() -> list[tuple[str, click.Parameter]]:
    return [
        (name, parameter)
        for name, command in ALL.items()
        for parameter in command.params
        if parameter.name in SITE_PARAMETERS and name not in NEW_SITES
    ]


def arguments_for(name: str, parameter: click.Parameter, folder: Path) -> list[str]:
    """A command line with an unknown site, and with values for what else the command requires."""
    given = ["springfeild"] if isinstance(parameter, click.Argument) else [parameter.opts[-1], "springfeild"]
    given += NEEDED.get(name, [])
    for other in ALL[name].params:
        if other is parameter or not other.required or name in NEEDED:
            continue
        value = str(folder / "x")
        if isinstance(other.type, click.Choice):
            value = str(other.type.choices[0])
        given += [value] if isinstance(other, click.Argument) else [other.opts[-1], value]
    return [*name.split()[1:], *given]


def test_every_command_suggests_the_nearest_site(
    clerk_command: Clerk, database: Url, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Found in the tree of commands, so that a new command cannot forget it."""
    monkeypatch.setenv("DATABASE_URL", database)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("insert into sites (subdomain) values ('springfield'), ('riverton')")
    parameters = site_parameters()
    assert len(parameters) > 20
    for name, parameter in parameters:
        result = clerk_command(*arguments_for(name, parameter, tmp_path))
        expected = (2, "", "clerk: no site springfeild; did you mean springfield?\n")
        assert (result.code, result.out, result.err) == expected, f"{name} {parameter.name}"


def test_no_command_about_a_site_creates_a_database(clerk_command: Clerk, tmp_path: Path) -> None:
    for name, parameter in site_parameters():
        result = clerk_command(*arguments_for(name, parameter, tmp_path), *(["--dry-run"] if name in CREATE else []))
        if name not in WITHOUT_DATABASE:
            assert (result.code, result.out) == (3, ""), f"{name} {parameter.name}"
            assert result.err.startswith("clerk: there is no database yet"), f"{name} {parameter.name}"
            assert result.err.endswith(": run: clerk up.\n")
        assert list(tmp_path.iterdir()) == [], f"{name} created something"


def test_every_group_suggests_the_nearest_command(clerk_command: Clerk) -> None:
    groups = {(): cli} | {
        (name,): group
        for name in cli.list_commands(click.Context(cli))
        if isinstance(group := cli.get_command(click.Context(cli), name), click.Group)
    }
    assert len(groups) > 5
    for path, group in groups.items():
        names = [name for name in group.list_commands(click.Context(group)) if name[1:2] != name[2:3]]
        command = max(names, key=len)
        misspelt = command[0] + command[2] + command[1] + command[3:]
        result = clerk_command(*path, misspelt)
        assert result.code == 2, path
        what = " ".join([*path, "command"])
        assert result.err == f"clerk: no {what} {misspelt}; did you mean {command}?\n"
    assert clerk_command("frobnicate").err == "clerk: no command frobnicate: `clerk --help` lists the commands.\n"


UNKNOWN = [
    (["pause", "--queue", "orc"], "no queue orc; did you mean ocr?"),
    (["resume", "--queue", "orc"], "no queue orc; did you mean ocr?"),
    (["worker", "--queues", "fetch,orc"], "no queue orc; did you mean ocr?"),
    (["retry", "springfield", "--stage", "orc"], "no stage orc; did you mean ocr?"),
    (["rewind", "springfield", "--to", "deplyo"], "no stage deplyo; did you mean deploy?"),
    (["failures", "--stage", "delivry"], "no stage delivry; did you mean delivery?"),
    (["failures", "--error", "pdftimeout"], "no error code pdftimeout; did you mean PdfTimeout?"),
    (["failures", "--error", "zzz"], "no error code zzz: docs/errors.md lists the codes."),
    (["site", "date", "x", "a.pdf", "--kind", "agneda"], "no kind agneda; did you mean agenda?"),
]


def test_unknown_names(clerk_command: Clerk, database: Url, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    for arguments, error in UNKNOWN:
        result = clerk_command(*arguments)
        assert (result.code, result.out, result.err) == (2, "", f"clerk: {error}\n"), arguments


def test_published_sites_are_known_without_a_database(
    clerk_command: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = tmp_path / "published"
    (published / "springfield" / "versions").mkdir(parents=True)
    (published / "springfield" / "current").symlink_to("versions/1")
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(published))
    for arguments in (["search", "words"], ["votes", "export"]):
        result = clerk_command(*arguments, "--site", "springfeild")
        assert (result.code, result.err) == (2, "clerk: no site springfeild; did you mean springfield?\n")
    assert not (tmp_path / ".clerk").exists(), "no database was created"


def test_suggestions() -> None:
    assert near_names("ORC", ["fetch", "ocr"]) == ["ocr"]
    assert str(unknown_name("kind", "x" * 200, ["a", "b"])) == f"no kind {'x' * 80}: known are a, b."
    assert "and 8 more" in str(unknown_name("kind", "zz", [f"name{number}" for number in range(20)]))
    assert str(unknown_name("kind", "zz", [])) == "no kind zz: there are none."
    assert require_known("kind", "a", ["a"]) == "a"
    with pytest.raises(UnknownName):
        require_known("kind", "b", ["a"])


def test_unknown_variables_are_warned_about_once_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("CLERK_OCR_DIP=150\nOTHER=1\n")
    result = subprocess.run(
        [sys.executable, "-m", "clerk", "config", "--json"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CLERK_HOEM": "/x",
            "CLERK_ZZZZ": "1",
            "CLERK_TEST_DATABASE_URL": "",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.startswith("[")
    assert result.stderr.splitlines() == [
        "clerk: warning: no setting CLERK_HOEM (from environment); did you mean CLERK_HOME?",
        "clerk: warning: no setting CLERK_ZZZZ (from environment): `clerk config` lists the settings.",
        f"clerk: warning: no setting CLERK_OCR_DIP (from {tmp_path / '.env'}); did you mean CLERK_OCR_DPI?",
    ]
