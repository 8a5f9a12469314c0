"""`clerk plugins new`."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
from datetime import date
from importlib import resources
from pathlib import Path

import click

from clerk import API_VERSION
from clerk.cli.output import dry_run_option, dry_run_prefix, json_option, print_json
from clerk.errors import EXIT_USAGE, ClerkError
from clerk.sources.fetcher import Site
from clerk.sources.recording import Answer, Recording
from clerk.sources.vendors import BUILT_IN

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_MEETINGS = [
    {"id": 7, "board": "City Council", "day": "2024-03-05", "minutes": "/files/7.pdf", "agenda": "/files/7-agenda.pdf"},
    {"id": 8, "board": "Planning Board", "day": "2024-03-12", "minutes": None, "agenda": "/files/8-agenda.pdf"},
    {"id": 9, "board": None, "day": "2024-03-19", "minutes": None, "agenda": "/files/9-agenda.pdf"},
]


class InvalidPluginName(ClerkError):
    """A plugin cannot have this name, or its folder exists."""

    code = "InvalidPluginName"
    exit_code = EXIT_USAGE


@click.command()
@click.argument("name")
@click.option(
    "--to", "parent", default=".", type=click.Path(file_okay=False, path_type=Path), help="Parent of the new folder."
)
@dry_run_option
@json_option
def new(name: str, parent: Path, dry_run: bool, as_json: bool) -> None:
    """Write a plugin with a fetcher, a recording and a test that passes.

    NAME becomes the folder, the package and the label of the fetcher: lower-case letters, digits and hyphens.

    \b
    Examples:
      clerk plugins new springfield-portal
      cd springfield-portal && pip install -e . && python -m pytest
    """
    module = name.replace("-", "_")
    if len(name) > 50 or not _NAME.fullmatch(name) or keyword.iskeyword(module):
        raise InvalidPluginName(
            f"{name[:80]!r} cannot be the name of a plugin",
            "use at most 50 lower-case letters, digits and hyphens, with a letter first, and no word of Python",
        )
    if (taken := _taken_by(name, module)) is not None:
        raise InvalidPluginName(f"there is already {taken}", "choose another name")
    folder = parent / name
    if folder.exists():
        raise InvalidPluginName(f"{folder} exists", "choose another name, or another folder with --to")
    files = _render(name, module)
    recording = "tests/recordings/example"
    written = [*files, f"{recording}/recording.json", f"{recording}/001-meetings.json"]
    if not dry_run:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        _recording(name).write(folder / recording)
    if as_json:
        print_json({"folder": str(folder), "files": written, "dry_run": dry_run})
        return
    click.echo(dry_run_prefix(dry_run, f"{folder}: {', '.join(written)}"))
    click.echo(f"Next: cd {folder} && pip install -e . pytest && python -m pytest")


def _taken_by(name: str, module: str) -> str | None:
    """What the plugin would replace by its name: a fetcher, or a module of Python or of an installed package."""
    if name in BUILT_IN:
        return f"a fetcher {name} of clerk"
    spec = importlib.util.find_spec(module)
    # A folder without __init__.py, such as the current one, is found as a namespace without origin.
    return f"a Python module {module}" if spec is not None and spec.origin is not None else None


def _render(name: str, module: str) -> dict[str, str]:
    """Path → text of the files."""
    values = {
        "@NAME@": name,
        "@MODULE@": module,
        "@CLASS@": "".join(part.capitalize() for part in name.split("-")),
        "@API_VERSION@": str(API_VERSION),
    }
    templates = resources.files("clerk.plugins") / "template"
    rendered = {}
    for template, path in {
        "pyproject.toml.txt": "pyproject.toml",
        "readme.md.txt": "README.md",
        "plugin.py.txt": f"{module}.py",
        "test_plugin.py.txt": f"tests/test_{module}.py",
    }.items():
        text = (templates / template).read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        rendered[path] = text
    return rendered


def _recording(name: str) -> Recording:
    """A recording of an invented portal, until the author records a real one."""
    site = Site("example", "Example", {"portal": "https://meetings.example"})
    answer = Answer(
        "GET",
        "https://meetings.example/meetings.json",
        200,
        {"content-type": "application/json"},
        (json.dumps(_MEETINGS, indent=2) + "\n").encode(),
    )
    return Recording(name, site, date.today(), answers=[answer])
