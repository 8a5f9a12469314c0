"""Schema and invariant checks of `clerk verify`.

The database must contain everything in the snapshot in `sql/`. It may contain more: a database imported from legacy
clerk keeps its additional columns and tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from clerk.db.migrations import procrastinate_schema, schema_snapshot
from clerk.db.migrations.migrate import State, read_state
from clerk.db.migrations.repeatable import RepeatableObjects, is_cleaned_up, live_objects
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.errors import SchemaMismatch


@dataclass(frozen=True)
class Check:
    name: str
    about: str
    problems: list[str] = field(default_factory=list)
    unknown: str | None = None
    """Why the check could not be made."""

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_schema(connection: psycopg.Connection, folder: SqlFolder) -> list[Check]:
    state = read_state(connection)
    if state.kind != "ours":
        return [Check("migrations", "every migration is applied", ["this database has not been migrated"])]
    live = schema_snapshot.take(connection, folder)
    wanted = schema_snapshot.parse(folder.read(schema_snapshot.FILE))
    if is_cleaned_up(connection):
        wanted = schema_snapshot.after_cleanup(wanted, folder)
    missing = schema_snapshot.missing(live, wanted)
    return [
        Check(
            "migrations",
            "every migration is applied and unchanged",
            _migration_problems(state, folder),
        ),
        *(
            Check(section, f"all {section} of the snapshot exist", missing.get(section, []))
            for section in ("types", "tables", "columns", "constraints", "indexes", "views")
        ),
        Check(
            "triggers",
            "every trigger exists and is enabled or disabled as it should be",
            _differing_triggers(live, missing),
        ),
        Check(
            "functions",
            "functions and triggers match their files",
            _object_problems(connection, folder) + _trigger_problems(connection),
        ),
        Check("procrastinate", "Procrastinate's schema matches its package", _procrastinate_problems(connection)),
        Check(
            "privileges",
            "only owners may create objects in schema public, and only they have",
            schema_privilege_problems(connection),
        ),
        Check("ledger_key", "each unit has one ledger row", _ledger_duplicates(connection, missing)),
        Check("ledger_status", "every ledger status is one of the five", _ledger_statuses(connection, missing)),
    ]


INVARIANTS = {
    "I1": "every unit of a finished run is in one terminal state",
    "I2": "counters equal the ledger",
    "I3": "one accepted advance per run and phase",
    "I4": "every run ends, and its site records how",
    "I5": "at most one publication per run and content, and none of content that is already published",
    "I7": "no job runs without a live lease",
    "I8": "one accepted result per job and attempt",
    "waiting": "everything that waits has a job or coordinator that continues it",
}
"""The invariants of the design that the database can check (I6 is about files), and `waiting`: work that would never
end although they hold."""


def verify_invariants(connection: psycopg.Connection, *, full: bool = False) -> list[Check]:
    """Check the active runs, which is fast for any number of sites, or with `full` every row."""
    problems: dict[str, list[str]] = {}
    view = sql.Identifier("invariant_violations_full" if full else "invariant_violations")
    for invariant, subdomain, stage, problem in connection.execute(
        sql.SQL("select invariant, subdomain, stage, problem from {} order by 1, 2, 3").format(view)
    ):
        where = " ".join(filter(None, (subdomain, stage))) or "pipeline"
        problems.setdefault(invariant, []).append(f"{where}: {problem}")
    return [
        Check("triggers", "every accounting trigger exists and is enabled", _trigger_problems(connection)),
        *(Check(name, about, problems.get(name, [])) for name, about in INVARIANTS.items()),
    ]


def require_triggers(connection: psycopg.Connection) -> None:
    """Raise if a trigger is missing, disabled or wrongly enabled: the next job would break any repaired state again."""
    if problems := _trigger_problems(connection):
        raise SchemaMismatch(
            f"the triggers of database {connection.info.dbname} are not those of this clerk ({problems[0]})",
            'run "clerk db up"; "clerk verify" lists all differences',
        )


def require_known_schema(connection: psycopg.Connection, folder: SqlFolder) -> None:
    """Raise SchemaMismatch with the first problem. Workers call this before they start, so it is cheap."""
    require_known_migrations(connection, folder)
    problems = (
        _object_problems(connection, folder) or _trigger_problems(connection) or _procrastinate_problems(connection)
    )
    if problems:
        raise _schema_mismatch(connection, problems[0])


def require_known_migrations(connection: psycopg.Connection, folder: SqlFolder) -> None:
    """Raise SchemaMismatch if the migrations differ. Enough for code that only reads views."""
    state = read_state(connection)
    problems = _migration_problems(state, folder) if state.kind == "ours" else ["it has not been migrated"]
    if problems:
        raise _schema_mismatch(connection, problems[0])


def _schema_mismatch(connection: psycopg.Connection, problem: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the schema of database {connection.info.dbname} is not the one of this clerk ({problem})",
        'run "clerk db up"; "clerk db verify" lists all differences',
    )


def _migration_problems(state: State, folder: SqlFolder) -> list[str]:
    if state.version > folder.newest:
        return [f"the database is at {state.version:04}, this clerk has migrations up to {folder.newest:04}"]
    problems = []
    for migration in folder.migrations:
        if migration.version not in state.applied:
            problems.append(f"{migration.name} is not applied")
        elif state.applied[migration.version][1] != migration.checksum:
            problems.append(f"{migration.name} was changed after it was applied")
    return problems


def _object_problems(connection: psycopg.Connection, folder: SqlFolder) -> list[str]:
    recorded = {
        (kind, name): (checksum, applied)
        for kind, name, checksum, applied in connection.execute(
            "select kind, name, checksum, live_checksum from clerk_schema_objects"
        )
    }
    live: dict[tuple[str, str], list[str]] = {}
    for found in live_objects(connection):
        live.setdefault((found.kind, found.name), []).append(found.checksum)  # a function may be overloaded
    problems = []
    for wanted in RepeatableObjects(connection, folder).wanted(folder.newest):
        key, what = (wanted.kind, wanted.name), f"{wanted.kind} {wanted.name}"
        if key not in recorded or key not in live:
            problems.append(f"{what} is missing")
        elif recorded[key][0] != wanted.checksum:
            problems.append(f"{what} differs from this clerk's version")
        elif live[key] != [recorded[key][1]]:
            problems.append(f"{what} was changed by hand")
    return problems


def _differing_triggers(live: schema_snapshot.Sections, missing: schema_snapshot.Sections) -> list[str]:
    """The triggers of the snapshot that are missing, and in words those that differ only in being enabled."""
    suffix = " -- disabled"
    problems = []
    for line in missing.get("triggers", []):
        name = line.split()[2]
        if line.endswith(suffix) and line.removesuffix(suffix) in live["triggers"]:
            problems.append(f"trigger {name} is enabled, but clerk needs it disabled")
        elif line + suffix in live["triggers"]:
            problems.append(f"trigger {name} is disabled")
        else:
            problems.append(line)
    return problems


def _trigger_problems(connection: psycopg.Connection) -> list[str]:
    """Missing or disabled triggers. Empty if the view trigger_problems is missing, which another check reports."""
    if connection.execute("select to_regclass('public.trigger_problems')").fetchone() == (None,):
        return []
    rows = connection.execute("select name, problem from trigger_problems order by 1")
    return [f"trigger {name} {problem}" for name, problem in rows]


def _procrastinate_problems(connection: psycopg.Connection) -> list[str]:
    installed = procrastinate_schema.installed(connection)
    package = procrastinate_schema.package_version()
    if installed is None or installed.version != package:
        return [f"schema version {installed.version if installed else 'none'}, package version {package}"]
    row = connection.execute(
        "select functions from clerk_procrastinate where complete and version = %s", [str(package)]
    ).fetchone()
    recorded: dict[str, str] = row[0] if row else {}
    live = procrastinate_schema.function_checksums(connection)
    return [f"{name} is missing or was changed by hand" for name, md5 in recorded.items() if live.get(name) != md5]


def schema_privilege_problems(connection: psycopg.Connection) -> list[str]:
    """Who may create objects in `public` beside the owners: every user before Postgres 15 and in databases that were
    upgraded from there, or clerk's worker and dashboard. Also what these two have created there."""
    return [
        f"{subject} may create objects in schema public, also operators that clerk's functions would use;"
        f' as {owner}, run "revoke create on schema public from {grantee}"'
        for subject, grantee, owner in connection.execute(_CREATE_PRIVILEGES)
    ] + [
        f'{kind} {name} belongs to {owner}, and clerk\'s queries may use it; as its owner, run "drop {kind} {name}"'
        for kind, name, owner in connection.execute(_PLANTED_OBJECTS)
    ]


_CREATE_PRIVILEGES = """
select coalesce('role ' || r.rolname, 'every user'), coalesce(r.rolname, 'public'), pg_get_userbyid(acl.grantor)
from pg_namespace n
cross join aclexplode(n.nspacl) acl
left join pg_roles r on r.oid = acl.grantee
where n.nspname = 'public' and acl.privilege_type = 'CREATE'
  and (acl.grantee = 0 or r.rolname in ('clerk_worker', 'clerk_dashboard'))
order by acl.grantee
"""

# Functions last: operators depend on them.
_PLANTED_OBJECTS = """
select object.type, object.identity, r.rolname
from pg_shdepend d
join pg_roles r on r.oid = d.refobjid and d.refclassid = 'pg_authid'::regclass
cross join pg_identify_object(d.classid, d.objid, d.objsubid) object
where d.dbid = (select oid from pg_database where datname = current_database()) and d.deptype = 'o'
  and r.rolname in ('clerk_worker', 'clerk_dashboard') and object.schema = 'public'
order by object.type = 'function', object.type, object.identity
"""


def _ledger_duplicates(connection: psycopg.Connection, missing: schema_snapshot.Sections) -> list[str]:
    """Duplicate ledger rows. Searched only if the unique index, which prevents them, is missing."""
    if not _mentions(missing, "uix_cips_content_item_pipeline") or _mentions(
        missing, "create table content_item_pipeline_state"
    ):
        return []
    return [
        f"content item {item} has {count} rows for {pipeline}"
        for item, pipeline, count in connection.execute(
            "select content_item_id, pipeline, count(*) from content_item_pipeline_state"
            " group by 1, 2 having count(*) > 1 order by 1, 2 limit 20"
        )
    ]


def _ledger_statuses(connection: psycopg.Connection, missing: schema_snapshot.Sections) -> list[str]:
    if not _mentions(missing, "cips_status_check") or _mentions(missing, "create table content_item_pipeline_state"):
        return []
    return [
        f"{count} rows have the status {status!r}"
        for status, count in connection.execute(
            "select status, count(*) from content_item_pipeline_state where status not in"
            " ('pending', 'in_progress', 'failed_retryable', 'processed', 'failed_terminal') group by 1"
        )
    ]


def _mentions(missing: schema_snapshot.Sections, part: str) -> bool:
    return any(part in line for lines in missing.values() for line in lines)
