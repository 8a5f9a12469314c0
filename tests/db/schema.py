"""The schema, owners and privileges of a database as comparable lines: `up` and `down` must restore them."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.sqlfiles import SqlFolder

# clerk's own snapshot leaves these out, since they differ from server to server.
_OWNERS_AND_PRIVILEGES_QUERY = """
    select format('%s %s owned by %s', c.relkind, c.relname, pg_get_userbyid(c.relowner))
    from pg_class c where c.relnamespace = 'public'::regnamespace
    union all
    select format('%s may %s on %s', acl.grantee::regrole, acl.privilege_type, c.relname)
    from pg_class c
    cross join aclexplode(coalesce(
        c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))) acl
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'S')
    union all
    select format('%s may %s in public', acl.grantee::regrole, acl.privilege_type)
    from pg_namespace n cross join aclexplode(n.nspacl) acl where n.nspname = 'public'
    union all
    select format('function %s owned by %s', p.oid::regprocedure, pg_get_userbyid(p.proowner))
    from pg_proc p where p.pronamespace = 'public'::regnamespace
    union all
    select format('type %s owned by %s', t.typname, pg_get_userbyid(t.typowner))
    from pg_type t where t.typnamespace = 'public'::regnamespace
    union all
    select format('schema %s', nspname) from pg_namespace where nspname !~ '^pg_'
    order by 1
"""


def schema_lines(connection: psycopg.Connection, folder: SqlFolder) -> list[str]:
    lines = schema_snapshot.render(schema_snapshot.take(connection, folder)).splitlines()
    return lines + [line for (line,) in connection.execute(_OWNERS_AND_PRIVILEGES_QUERY.encode())]


def tables(connection: psycopg.Connection) -> list[str]:
    names = connection.execute(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1"
    )
    return [name for (name,) in names]


def rows(connection: psycopg.Connection, table: str) -> list[dict[str, Any]]:
    """Every row with every column, in an order that does not depend on the physical order."""
    with connection.cursor(row_factory=dict_row) as cursor:
        query = sql.SQL('select t.* from {} t order by t::text collate "C"').format(sql.Identifier(table))
        all_rows = cursor.execute(query).fetchall()
    return sorted(all_rows, key=lambda row: str(row.get("subdomain", row)))
