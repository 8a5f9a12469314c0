"""docs/commands.md as it follows from every command's `--help`; to write it anew: python -m tests.docs.commands_page"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from clerk.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
_WIDTH = 100

_PREFACE = """\
# Commands

What `clerk COMMAND --help` says. Everything that reports has `--json`, everything that changes something `--dry-run`.
Exit codes: 0 fine, 1 something is wrong, 2 wrong usage, 3 could not tell (database not reachable). `--debug`, anywhere
on the line, shows the traceback of an error. Plugins may add commands of their own.
"""


def page() -> str:
    return _PREFACE + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in _helps(cli, "clerk", None))


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, parent, name.rpartition(" ")[2], terminal_width=_WIDTH, help_option_names=["-h", "--help"]
    )
    if isinstance(command, click.Group):
        if parent is not None:
            yield name, _text(command, context)
        for name_below in command.list_commands(context):
            below = command.get_command(context, name_below)
            if below is not None and not below.hidden:
                yield from _helps(below, f"{name} {name_below}", context)
    else:
        yield name, _text(command, context)


def _text(command: click.Command, context: click.Context) -> str:
    return "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
