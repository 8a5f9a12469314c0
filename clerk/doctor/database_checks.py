"""Checks of the database: connection, pooler, schema, privileges, clock, and what depends on its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg

from clerk.config import Settings, redact_url
from clerk.db.connection import connect, require_usable_pool
from clerk.db.embedded.postgres import EmbeddedPostgres
from clerk.db.embedded.server import bundled
from clerk.db.migrations.migrate import read_state
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import schema_privilege_problems, verify_schema
from clerk.db.sites import read_sites
from clerk.doctor.finding import Finding, problem, run_check, unknown
from clerk.doctor.machine_checks import check_languages
from clerk.doctor.worker_privileges import missing_privileges, refused_statement
from clerk.documents.repository import has_stored_documents
from clerk.documents.storage import require_mounted
from clerk.errors import ClerkError, StorageUnmounted
from clerk.humanize import format_duration
from clerk.ocr.tesseract import DEFAULT_LANGUAGES, LANGUAGES

Connection = psycopg.Connection[Any]

_STATEMENT_TIMEOUT = "10s"
_MAX_SKEW = timedelta(seconds=5)
_MAX_PRIVILEGES = 3
_ROLE = """
select current_user, to_regrole('clerk_worker') is not null,
       coalesce(pg_has_role(to_regrole('clerk_worker'), 'usage'), false)
"""
_NEEDS_DATABASE = ("pooler", "schema", "roles", "privileges", "clock", "languages", "storage", "limits")
"""Checks that are not made without a connection."""


def check_database(settings: Settings) -> list[Finding]:
    if settings.database_url is None and not EmbeddedPostgres(settings.home).exists():
        return [
            run_check("database", partial(_check_embedded, settings)),
            run_check("languages", partial(check_languages, settings, [DEFAULT_LANGUAGES])),
        ]
    try:
        with connect(settings) as connection:
            connection.execute("select set_config('statement_timeout', %s, false)", [_STATEMENT_TIMEOUT])
            return [_describe(settings, connection), *_check_connection(settings, connection)]
    except ClerkError as error:
        rest = [unknown(name, "there is no connection to the database") for name in _NEEDS_DATABASE]
        return [problem("database", error), *rest]


def _check_embedded(settings: Settings) -> Finding:
    binaries = bundled(18)
    if not (binaries / "postgres").exists():
        return Finding("database", f"{binaries} has no Postgres", "install clerk again, or set DATABASE_URL")
    return Finding("database", f"none yet; `clerk up` creates one under {settings.home}")


def _describe(settings: Settings, connection: Connection) -> Finding:
    version = connection.info.server_version
    url = settings.direct_database_url
    where = f"embedded, under {settings.home}" if url is None else f"at {redact_url(url)}"
    return Finding("database", f"Postgres {version // 10_000}.{version % 10_000}, {where}")


def _check_connection(settings: Settings, connection: Connection) -> Iterator[Finding]:
    yield run_check("pooler", partial(check_pooler, settings, connection))
    yield run_check("clock", partial(check_clock, connection))
    schema = run_check("schema", partial(check_schema, connection))
    yield schema
    checks: dict[str, Callable[[], Finding]] = {
        "roles": partial(check_roles, connection),
        "privileges": partial(check_privileges, connection),
        "languages": partial(check_site_languages, settings, connection),
        "storage": partial(check_storage, settings, connection),
        "limits": partial(check_limits, settings, connection),
    }
    is_migrated = schema.status == "ok" or read_state(connection).kind == "ours"
    for name, check in checks.items():
        yield run_check(name, check) if is_migrated else unknown(name, "the database is not migrated")


def check_pooler(settings: Settings, connection: Connection) -> Finding:
    require_usable_pool(settings, connection)
    return Finding("pooler", "DATABASE_URL leads to one that clerk can use" if settings.is_pooled else "none in use")


def check_schema(connection: Connection) -> Finding:
    folder = default_folder()
    if read_state(connection).kind == "foreign":
        what = f"the database {connection.info.dbname} belongs to another application"
        return Finding("schema", what, "name another database in DATABASE_URL; createdb makes one")
    checks = [check for check in verify_schema(connection, folder) if check.name != "privileges"]
    problems = [found for check in checks for found in check.problems]
    if problems:
        more = f" and {len(problems) - 1:,} more" if len(problems) > 1 else ""
        return Finding("schema", f"{problems[0]}{more}", "run: clerk db up; `clerk db verify` lists all differences")
    return Finding("schema", f"as this version of clerk needs it, migration {folder.newest:04}")


def check_roles(connection: Connection) -> Finding:
    """Whether the database user has all privileges of a worker, which include those of the dashboard."""
    row = connection.execute(_ROLE).fetchone()
    assert row is not None
    user, has_roles, is_member = row
    if missing := missing_privileges(connection, default_folder()):
        more = f" and {len(missing) - _MAX_PRIVILEGES:,} more" if len(missing) > _MAX_PRIVILEGES else ""
        lacks = f"{', '.join(missing[:_MAX_PRIVILEGES])}{more}"
        what = f"the database user {user} may not run workers (missing: {lacks})"
        if is_member:
            return Finding("roles", what, "as the owner of the database, run: clerk db up")
        grant = f'as the owner of the database, run "grant clerk_worker to {user}" in psql'
        create = 'let an administrator run "create role clerk_worker" in psql, then clerk db up; then '
        return Finding("roles", what, grant if has_roles else create + grant)
    if refused := refused_statement(connection):
        what = f"the database user {user} has the privileges of a worker, and cannot start runs ({refused})"
        remedy = "as the owner of the database, run clerk db up; if the problem remains, report it as a bug"
        return Finding("roles", what, remedy)
    return Finding("roles", f"the database user {user} may run workers")


def check_privileges(connection: Connection) -> Finding:
    if problems := schema_privilege_problems(connection):
        what, _, remedy = problems[0].partition("; ")
        return Finding("privileges", what, remedy)
    return Finding("privileges", "only owners may create objects in schema public")


def check_clock(connection: Connection, max_skew: timedelta = _MAX_SKEW) -> Finding:
    """Compare this machine's clock with the database's, whose times are those of the pipeline."""
    before = datetime.now(UTC)
    row = connection.execute("select clock_timestamp()").fetchone()
    after = datetime.now(UTC)
    assert row is not None
    # The database read its clock between the two.
    skew = max(before - row[0], row[0] - after, timedelta())
    if skew > max_skew:
        direction = "ahead of" if before > row[0] else "behind"
        what = f"this machine's clock is {format_duration(skew)} {direction} the database's"
        return Finding("clock", what, "on the machine whose `date` is wrong, run: timedatectl set-ntp true")
    return Finding("clock", "agrees with the database's")


def check_site_languages(settings: Settings, connection: Connection) -> Finding:
    needed = set(DEFAULT_LANGUAGES.split("+"))
    for site in read_sites(connection):
        try:
            languages = site.extra_values.get("languages", "")
        except ValueError:
            continue  # the fetch reports it
        if isinstance(languages, str) and LANGUAGES.fullmatch(languages):
            needed.update(languages.split("+"))
    return check_languages(settings, needed)


def check_storage(settings: Settings, connection: Connection) -> Finding:
    try:
        require_mounted(settings.storage_dir)
    except StorageUnmounted as error:
        if has_stored_documents(connection):
            return Finding("storage", str(error), error.remedy)
        return Finding("storage", f"{settings.storage_dir} has no documents yet")
    return Finding("storage", f"{settings.storage_dir} has the folders of sites")


def check_limits(settings: Settings, connection: Connection) -> Finding:
    """The time that a fetch may take must be less than that after which its job is aborted."""
    row = connection.execute("select time_limit from stage_policy where stage = 'fetch'").fetchone()
    assert row is not None
    if timedelta(hours=settings.run_hours) >= row[0]:
        return Finding(
            "limits",
            f"CLERK_RUN_HOURS is {settings.run_hours:g}, and the job of a fetch is aborted after"
            f" {format_duration(row[0])}",
            "lower CLERK_RUN_HOURS, or raise time_limit of fetch in the table stage_policy",
        )
    return Finding("limits", "settings and time limits of the stages agree")
