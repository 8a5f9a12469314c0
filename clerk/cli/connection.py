"""The database connection of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from clerk import config
from clerk.cli.output import info
from clerk.db.audit import set_actor
from clerk.db.connection import connect, require_usable_pool
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_migrations, require_known_schema

Connection = psycopg.Connection[Any]


@contextmanager
def open_pipeline(
    settings: config.Settings | None = None, *, migrations_only: bool = False, create: bool = False
) -> Iterator[Connection]:
    """Connect to a database that has the schema of this version. Changes are recorded as made by the command line.

    migrations_only: accept a schema with missing functions or triggers, for commands that report such problems.
    create: migrate the embedded database first if it is empty.
    """
    settings = settings or config.load()
    with connect(settings) as connection:
        require_usable_pool(settings, connection)
        if create and settings.database_url is None and read_state(connection).kind == "empty":
            info(f"Creating a database under {settings.home} …")
            Migrator(connection, default_folder(), settings.lock_timeout).up()
        if migrations_only:
            require_known_migrations(connection, default_folder())
        else:
            require_known_schema(connection, default_folder())
        set_actor(connection, "cli")
        yield connection


@contextmanager
def open_migrator(settings: config.Settings | None = None, log: Callable[[str], None] = info) -> Iterator[Migrator]:
    """Connect to a database of any schema."""
    settings = settings or config.load()
    with connect(settings) as connection:
        require_usable_pool(settings, connection)
        yield Migrator(connection, default_folder(), settings.lock_timeout, log)
