"""Audit log: records in operator_actions who did what, and from where.

The SQL functions of operator actions insert their own rows, so actions from psql are recorded too. Actions that are
not SQL functions are recorded with `log_action`.
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
        return "unknown"


def set_actor(connection: Connection, via: str, who: str | None = None) -> None:
    """Set the name and the channel (`cli`, `dashboard` or `worker`) for all further actions on this connection."""
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
