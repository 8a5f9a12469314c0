"""Which privileges of a worker the current database user lacks.

sql/grants.sql has the list: what it grants to clerk_worker. Its query cannot be used as it is, because it is about that
role and leaves out what the current user may not grant.
"""

from __future__ import annotations

import psycopg

from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline import engine

_END = "\n-- clerk/doctor/worker_privileges.py reads"
_MISSING = """
)
select privilege, name
from relation
cross join unnest(worker_privileges) privilege
where not case kind when 'S' then has_sequence_privilege(oid, privilege) else has_table_privilege(oid, privilege) end
union all
select 'execute', p.oid::regprocedure::text
from pg_proc p
where p.pronamespace = 'public'::regnamespace and not has_function_privilege(p.oid, 'execute')
  and (p.proname like 'procrastinate\\_%'
       or p.proname in (select o.name from clerk_schema_objects o where o.kind = 'function'))
order by 2, 1
"""


def missing_privileges(connection: psycopg.Connection, folder: SqlFolder) -> list[str]:
    """As in `update on sites`."""
    relations, end, _ = folder.grants.sql.partition(_END)
    if not end:
        raise ValueError(f"{folder.grants.file} has no line that begins with {_END.strip()}")
    try:
        rows = connection.execute((relations + _MISSING).encode()).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return ["select on clerk_schema_objects"]  # the list of clerk's objects, without which no other is known
    return [f"{privilege} on {name}" for privilege, name in rows]


def refused_statement(connection: psycopg.Connection) -> str | None:
    """Start a due run as the scheduler does, and roll it back: a statement may need a privilege that is not granted to
    workers, which is an error in clerk."""
    try:
        with connection.transaction(force_rollback=True):
            engine.start_next_due_site(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        return error.diag.message_primary or str(error)
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction):
        return None  # the check of the schema names what is missing
    return None
