"""How the dashboard acts, where it may: on a connection of its own per action, in the name of the visitor.

Never the reader's connections: those cannot write, and are to stay so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from starlette.requests import Request

from clerk.db.audit import set_actor
from clerk.db.connection import connect_to
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.errors import DatabaseRefused
from clerk.web.actions import ACTIONS, ActionRequest, ActionResult
from clerk.web.auth import user_name
from clerk.web.confirmation import ConfirmationTokens

_WAIT_FOR_LOCKS = "5s"
_NAME_AT_MOST = 80


class ActionExecutor:
    def __init__(self, url: str) -> None:
        self.url = url
        self.confirmations = ConfirmationTokens()

    def preview(self, asked: ActionRequest, who: str) -> ActionResult:
        """Does it and takes it back: what is said is exactly what would happen, as with --dry-run."""
        return self._act(asked, who, dry_run=True)

    def do(self, asked: ActionRequest, who: str) -> ActionResult:
        return self._act(asked, who, dry_run=False)

    def _act(self, asked: ActionRequest, who: str, dry_run: bool) -> ActionResult:
        with self._connection(who) as connection:
            return ACTIONS[asked.action].make(connection, asked, who, dry_run)

    @contextlib.contextmanager
    def _connection(self, who: str) -> Iterator[psycopg.Connection]:
        try:
            with connect_to(self.url) as connection:
                require_known_schema(connection, default_folder())
                connection.execute("select set_config('lock_timeout', %s, false)", [_WAIT_FOR_LOCKS])
                set_actor(connection, "dashboard", who)
                yield connection
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            raise DatabaseRefused("somebody else is changing the same thing right now", "try again") from error


def request_user(request: Request) -> str:
    """The name given with the token, which nobody has proven; without one, where the request came from."""
    name = "".join(filter(str.isprintable, user_name(request.headers.get("authorization", ""))))
    if name.strip():
        return name.strip()[:_NAME_AT_MOST]
    return f"dashboard {request.client.host if request.client else 'visitor'}"
