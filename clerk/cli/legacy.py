"""`clerk legacy`: the migration from legacy clerk. docs/legacy.md is the guide."""

from __future__ import annotations

import click

from clerk.cli.legacy_cleanup import cleanup_command
from clerk.cli.legacy_inspect import inspect_command
from clerk.cli.legacy_redis import redis_command
from clerk.cli.names import Group


@click.group(cls=Group)
def legacy() -> None:
    """Migrate from legacy clerk.

    docs/legacy.md is the guide.

    \b
    Examples:
      clerk legacy inspect
      clerk migrate-stuck-sites --dry-run
      clerk legacy redis --dry-run
      clerk legacy cleanup --check
    """


for command in (inspect_command, redis_command, cleanup_command):
    legacy.add_command(command)
