"""How every command speaks: JSON for programs on standard output, or plain lines for people."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


def print_json(value: Any, *, indent: int | None = 2) -> None:
    click.echo(json.dumps(value, indent=indent, default=str))


def info(line: str) -> None:
    """Progress goes to standard error, so that what a command prints can be piped."""
    click.echo(line, err=True)


def table(rows: list[tuple[str, ...]]) -> None:
    for line in format_table(rows):
        click.echo(line)


def format_table(rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = "") -> list[str]:
    """Rows as lines with their columns under each other; those in `right` to the right. The last may be cut."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(truncate((indent + "  ".join(cells)).rstrip()))
    return lines


def truncate(line: str) -> str:
    """Cut to the width of the terminal. What goes to a file or another program stays whole."""
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else line[: width - 1] + "…"


def wrap(sentence: str) -> list[str]:
    """On a terminal, broken between words; nothing of a sentence may be cut."""
    if not sys.stdout.isatty():
        return [sentence]
    return textwrap.wrap(sentence, shutil.get_terminal_size().columns - 1, subsequent_indent="  ") or [""]


def bar(done: int, of: int, width: int = 20) -> str:
    filled = 0 if of <= 0 else min(width, width * done // of)
    return "█" * filled + "░" * (width - filled)
