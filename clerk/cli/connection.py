"""The database connection of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg

from clerk import config
from clerk.cli.output import info
from clerk.db.audit import set_actor
from clerk.db.connection import connect, has_database, require_database, require_usable_pool
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_migrations, require_known_schema
from clerk.errors import DatabaseUnreachable

Connection = psycopg.Connection[Any]


@contextmanager
def open_pipeline(
    settings: config.Settings | None = None,
    *,
    migrations_only: bool = False,
    create: bool = False,
    read_only: bool = False,
) -> Iterator[Connection]:
    """Connect to a database that has the schema of this version. Changes are recorded as made by the command line.

    migrations_only: accept a schema with missing functions or triggers, for commands that report such problems.
    create: create and migrate the embedded database first if there is none. Otherwise NoDatabase is raised.
    read_only: for reports, which need no pooler: say it if the one of DATABASE_URL does not answer.
    """
    settings = settings or config.load()
    if not create:
        require_database(settings)
    with connect(settings) as connection:
        _check_pool(settings, connection, read_only)
        if create and settings.database_url is None and read_state(connection).kind == "empty":
            info(f"Creating a database under {settings.home} …")
            Migrator(connection, default_folder(), settings.lock_timeout).up()
        if migrations_only:
            require_known_migrations(connection, default_folder())
        else:
            require_known_schema(connection, default_folder())
        set_actor(connection, "cli")
        yield connection


def _check_pool(settings: config.Settings, connection: Connection, read_only: bool) -> None:
    try:
        require_usable_pool(settings, connection)
    except DatabaseUnreachable as error:
        if not read_only:
            raise
        info(f"clerk: {error}\nThis report comes through CLERK_DIRECT_DATABASE_URL.")


@contextmanager
def open_if_any(settings: config.Settings, *, create: bool = False) -> Iterator[Connection | None]:
    """As `open_pipeline`, for commands that need no database until something is changed, as in a dry run: None if
    there is no embedded database, or an empty one, and it is not to be created."""
    with ExitStack() as stack:
        if create or (has_database(settings) and not _is_empty(settings)):
            yield stack.enter_context(open_pipeline(settings, create=create))
        else:
            yield None


def _is_empty(settings: config.Settings) -> bool:
    if settings.database_url is not None:
        return False
    with connect(settings) as connection:
        return read_state(connection).kind == "empty"


@contextmanager
def open_migrator(
    settings: config.Settings | None = None,
    log: Callable[[str], None] = info,
    *,
    create: bool = False,
    read_only: bool = False,
) -> Iterator[Migrator]:
    """Connect to a database of any schema. create: create the embedded database if there is none. read_only: as
    `open_pipeline`."""
    settings = settings or config.load()
    if not create:
        require_database(settings)
    with connect(settings) as connection:
        _check_pool(settings, connection, read_only)
        yield Migrator(connection, default_folder(), settings.lock_timeout, log)
