"""Is the schema the one that this code was written for? Named checks, each with what is wrong in words.

The snapshot in `sql/` says what must be there. More than that may be there: an adopted database keeps its
unknown columns and tables.
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
    """Why nothing could be found out."""

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
    lacking = schema_snapshot.missing(live, wanted)
    return [
        Check(
            "migrations",
            "every migration is applied, and unchanged since",
            _migration_problems(state, folder),
        ),
        *(
            Check(section, f"all {section} of the snapshot are there", lacking.get(section, []))
            for section in ("types", "tables", "columns", "constraints", "indexes", "views")
        ),
        Check("triggers", "every trigger is there and enabled", lacking.get("triggers", [])),
        Check(
            "functions",
            "functions and triggers are as their files say",
            _object_problems(connection, folder) + _idle_triggers(connection),
        ),
        Check("procrastinate", "Procrastinate's schema fits its package", _procrastinate_problems(connection)),
        Check("ledger_key", "no two ledger rows for one unit", _ledger_duplicates(connection, lacking)),
        Check("ledger_status", "ledger statuses are among the five", _ledger_statuses(connection, lacking)),
    ]


INVARIANTS = {
    "I1": "every unit of a finished run is in one terminal state",
    "I2": "counters say what the ledger says",
    "I3": "one accepted advance per run and phase",
    "I4": "every run ends, and its site says how",
    "I5": "at most one publication per run and content, and none of what is published already",
    "I7": "no job runs without a live lease",
    "I8": "one accepted result per job and attempt",
    "waiting": "whatever waits has somebody to go on with it",
}
"""Those of the design's invariants that the database can see by itself (I6 is about files), and what would never end
although they hold."""


def verify_invariants(connection: psycopg.Connection, *, full: bool = False) -> list[Check]:
    """Over all that moves, which is quick however many sites there are; or in full, over every row there is."""
    problems: dict[str, list[str]] = {}
    view = sql.Identifier("invariant_violations_full" if full else "invariant_violations")
    for invariant, subdomain, stage, problem in connection.execute(
        sql.SQL("select invariant, subdomain, stage, problem from {} order by 1, 2, 3").format(view)
    ):
        where = " ".join(filter(None, (subdomain, stage))) or "pipeline"
        problems.setdefault(invariant, []).append(f"{where}: {problem}")
    return [
        Check("triggers", "somebody keeps the books: every trigger is there and enabled", _idle_triggers(connection)),
        *(Check(name, about, problems.get(name, [])) for name, about in INVARIANTS.items()),
    ]


def require_triggers(connection: psycopg.Connection) -> None:
    """Without them nobody keeps the books, and whatever is mended breaks again with the next job."""
    if problems := _idle_triggers(connection):
        raise SchemaMismatch(
            f"nobody keeps the books in the database {connection.info.dbname} ({problems[0]})",
            'run "clerk db up", and enable what "clerk verify" names',
        )


def require_known_schema(connection: psycopg.Connection, folder: SqlFolder) -> None:
    """What a worker asks before it starts: cheap, and the first reason is enough to refuse."""
    require_known_migrations(connection, folder)
    problems = _object_problems(connection, folder) or _idle_triggers(connection) or _procrastinate_problems(connection)
    if problems:
        raise _unknown(connection, problems[0])


def require_known_migrations(connection: psycopg.Connection, folder: SqlFolder) -> None:
    """For whoever only reads the views, and is to say what is wrong with the rest."""
    state = read_state(connection)
    problems = _migration_problems(state, folder) if state.kind == "ours" else ["it has not been migrated"]
    if problems:
        raise _unknown(connection, problems[0])


def _unknown(connection: psycopg.Connection, problem: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database {connection.info.dbname} is not at the schema of this clerk ({problem})",
        'run "clerk db up", and "clerk db verify" to see more',
    )


def _migration_problems(state: State, folder: SqlFolder) -> list[str]:
    if state.version > folder.newest:
        return [f"the database is at {state.version:04}, this clerk knows migrations up to {folder.newest:04}"]
    problems = []
    for migration in folder.migrations:
        if migration.version not in state.applied:
            problems.append(f"{migration.name} is not applied")
        elif state.applied[migration.version][1] != migration.checksum:
            problems.append(f"{migration.name} was changed after it had been applied")
    return problems


def _object_problems(connection: psycopg.Connection, folder: SqlFolder) -> list[str]:
    recorded = {
        (kind, name): (checksum, applied)
        for kind, name, checksum, applied in connection.execute(
            "select kind, name, checksum, live_checksum from clerk_schema_objects"
        )
    }
    live = [(o.kind, o.name, o.checksum) for o in live_objects(connection)]
    there = {(kind, name) for kind, name, _ in live}
    problems = []
    for wanted in RepeatableObjects(connection, folder).wanted(folder.newest):
        key, what = (wanted.kind, wanted.name), f"{wanted.kind} {wanted.name}"
        if key not in recorded or key not in there:
            problems.append(f"{what} is missing")
        elif recorded[key][0] != wanted.checksum:
            problems.append(f"{what} is another version than this clerk's")
        elif [o for o in live if o[:2] == key] != [(*key, recorded[key][1])]:
            problems.append(f"{what} was changed by hand")
    return problems


def _idle_triggers(connection: psycopg.Connection) -> list[str]:
    """Empty where the view that knows is missing: that is found under its own name."""
    if connection.execute("select to_regclass('public.trigger_problems')").fetchone() == (None,):
        return []
    found = connection.execute("select name, problem from trigger_problems order by 1")
    return [f"trigger {name} {problem}" for name, problem in found]


def _procrastinate_problems(connection: psycopg.Connection) -> list[str]:
    now = procrastinate_schema.installed(connection)
    brought = procrastinate_schema.package_version()
    if now is None or now.version != brought:
        return [f"its schema is at {now.version if now else 'nothing'}, the package at {brought}"]
    row = connection.execute(
        "select functions from clerk_procrastinate where complete and version = %s", [str(brought)]
    ).fetchone()
    recorded: dict[str, str] = row[0] if row else {}
    live = procrastinate_schema.function_checksums(connection)
    return [f"{name} is missing or was changed by hand" for name, md5 in recorded.items() if live.get(name) != md5]


def _ledger_duplicates(connection: psycopg.Connection, lacking: schema_snapshot.Sections) -> list[str]:
    """Looked for row by row only where the unique index, which rules them out, is not in force."""
    if not _any(lacking, "uix_cips_content_item_pipeline") or _any(lacking, "create table content_item_pipeline_state"):
        return []
    return [
        f"content item {item} has {count} rows for {pipeline}"
        for item, pipeline, count in connection.execute(
            "select content_item_id, pipeline, count(*) from content_item_pipeline_state"
            " group by 1, 2 having count(*) > 1 order by 1, 2 limit 20"
        )
    ]


def _ledger_statuses(connection: psycopg.Connection, lacking: schema_snapshot.Sections) -> list[str]:
    if not _any(lacking, "cips_status_check") or _any(lacking, "create table content_item_pipeline_state"):
        return []
    return [
        f"{count} rows have the status {status!r}"
        for status, count in connection.execute(
            "select status, count(*) from content_item_pipeline_state where status not in"
            " ('pending', 'in_progress', 'failed_retryable', 'processed', 'failed_terminal') group by 1"
        )
    ]


def _any(lacking: schema_snapshot.Sections, part: str) -> bool:
    return any(part in line for lines in lacking.values() for line in lines)
