"""Output of commands: JSON for programs; tables and text for people; progress messages on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import IO, Any

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clerk.errors import EXIT_FAILURE

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")

_UNLIMITED = 100_000
"""Width where the output is not a terminal: lines in files and pipes are never cut or wrapped."""


class _Report:
    is_printed = False


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a report, or without indent a line of one."""
    click.echo(json.dumps(value, indent=indent, default=str))
    _Report.is_printed = _Report.is_printed or indent is not None


def start_report() -> None:
    """Called before each command: a process of the tests runs several."""
    _Report.is_printed = False


def print_json_error(code: str, message: str, remedy: str) -> None:
    """What every command prints with --json instead of its report if it cannot make one. On one line, because some
    reports are lines of JSON. Nothing after a whole report, which says itself what is wrong."""
    if not _Report.is_printed:
        print_json({"error": {"code": code, "message": message, "remedy": remedy}}, indent=None)


def info(line: str) -> None:
    """Print a progress message to standard error, so that the output of the command can be piped."""
    click.echo(line, err=True)


def dry_run_prefix(dry_run: bool, sentence: str) -> str:
    return f"planned, not done (dry run): {sentence}" if dry_run else sentence


def make_console(stream: IO[str]) -> Console:
    """No colours unless the stream is a terminal; rich itself honours NO_COLOR."""
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        width=None if terminal else _UNLIMITED,
        highlight=False,
        markup=False,
        emoji=False,
    )


def show(*renderables: RenderableType) -> None:
    """Print to standard output. Text is wrapped on a terminal only."""
    console = make_console(sys.stdout)
    if console.is_terminal:
        console.print(Group(*renderables))
        return
    with console.capture() as capture:
        console.print(Group(*renderables))
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def text(value: str, style: str = "") -> Text:
    """Text from outside, such as a name or an error message, without characters that control a terminal."""
    return Text("".join(c if c.isprintable() else " " if c.isspace() else "?" for c in value), style=style)


def marked(mark: str, value: str, style: str = "") -> RenderableType:
    """Text after a mark or an indentation, such as `→ `. On a terminal all its lines begin below the first."""
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_row(Text(mark, style=style), text(value, style))
    return grid


def line(value: str) -> Text:
    """Text of one line, which is cut at the width of a terminal instead of wrapped."""
    one_line = text(value)
    one_line.no_wrap, one_line.overflow = True, "ellipsis"
    return one_line


def table(
    rows: Iterable[Sequence[str | RenderableType]],
    header: Sequence[str] | None = None,
    *,
    right: Collection[int] = (),
    indent: int = 0,
) -> RenderableType:
    """Rows in aligned columns. On a narrow terminal the last column is cut."""
    rows = list(rows)
    columns = len(header or rows[0])
    result = Table(box=None, show_header=header is not None, pad_edge=False, padding=(0, 2, 0, 0))
    for number in range(columns):
        result.add_column(
            header[number] if header else "",
            justify="right" if number in right else "left",
            no_wrap=number < columns - 1,
        )
    for row in rows:
        result.add_row(*(line(cell) if isinstance(cell, str) else cell for cell in row))
    return Padding(result, (0, 0, 0, indent), expand=False) if indent else result


def confirm(question: str, refused: str, *, default: bool = False) -> None:
    """Ask on the terminal. After a refusal the command ends with the sentence `refused` and exit code 1."""
    if not click.confirm(question, default=default, err=True):
        info(f"clerk: {refused}.")
        raise click.exceptions.Exit(EXIT_FAILURE)


def bar(done: int, total: int, width: int = 20) -> RenderableType:
    return ProgressBar(total=max(total, 1), completed=min(done, total), width=width)


def nothing_published(site: str | None) -> str:
    """For commands that read published archives: before the end of the first run there are none, which is no error."""
    if site:
        return f"No archive of {site} has been published yet: `clerk why {site}` says what it waits for."
    return "Nothing has been published yet: a site is published at the end of its first run. See `clerk status`."
