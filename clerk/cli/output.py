"""How every command speaks: JSON for programs on standard output, or plain lines for people."""

from __future__ import annotations

import json
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))


def say(line: str) -> None:
    """Progress goes to standard error, so that what a command prints can be piped."""
    click.echo(line, err=True)


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
