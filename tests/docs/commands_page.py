"""Generates docs/commands.md from every command's `--help`: python -m tests.docs.commands_page"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from clerk.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
_WIDTH = 100

_HEADER = """\
# Commands

Generated from `clerk COMMAND --help`. Commands that report have `--json`, commands that change something have
`--dry-run`. Exit codes: 0 success, 1 a problem was found, 2 wrong usage, 3 unknown (database not reachable). `--debug`,
anywhere on the line, shows the traceback of an error. Plugins may add commands.
"""


def page() -> str:
    return _HEADER + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in _help_texts(cli, "clerk", None))


def _help_texts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, parent, name.rpartition(" ")[2], terminal_width=_WIDTH, help_option_names=["-h", "--help"]
    )
    if isinstance(command, click.Group):
        if parent is not None:
            yield name, _help_text(command, context)
        for subcommand_name in command.list_commands(context):
            subcommand = command.get_command(context, subcommand_name)
            if subcommand is not None and not subcommand.hidden:
                yield from _help_texts(subcommand, f"{name} {subcommand_name}", context)
    else:
        yield name, _help_text(command, context)


def _help_text(command: click.Command, context: click.Context) -> str:
    return "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
