"""Who acts: the name under which an operator's moves are written to operator_actions.

The SQL functions behind the moves write their rows themselves, so that those made in psql are there too. What is
done outside of SQL is written with `log_action`.
"""

from __future__ import annotations

import getpass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[Any]


def whoami() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def set_actor(connection: Connection, via: str, who: str | None = None) -> None:
    """Everything done on this connection from now on is this person's, by way of `cli`, `dashboard` or `worker`."""
    connection.execute(
        "select set_config('clerk.operator', %s, false), set_config('clerk.via', %s, false)", [who or whoami(), via]
    )


def log_action(
    connection: Connection, action: str, subdomain: str | None = None, run_id: int | None = None, /, **detail: Any
) -> None:
    connection.execute(
        "insert into operator_actions (action, subdomain, run_id, detail) values (%s, %s, %s, %s)",
        [action, subdomain, run_id, Jsonb(detail)],
    )
