"""How the dashboard acts, where it may: on a connection of its own per action, in the name of the visitor.

Never the reader's connections: those cannot write, and are to stay so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from starlette.requests import Request

from clerk.errors import DatabaseRefused
from clerk.pg.connection import connect_to
from clerk.pg.operators import act_as
from clerk.pg.sqlfiles import default_folder
from clerk.pg.verify import require_known_schema
from clerk.web.confirming import Confirmations
from clerk.web.guard import user_name
from clerk.web.moves import MOVES, Asked, Outcome

_WAIT_FOR_LOCKS = "5s"
_NAME_AT_MOST = 80


class Actor:
    def __init__(self, url: str) -> None:
        self.url = url
        self.confirmations = Confirmations()

    def try_out(self, asked: Asked, who: str) -> Outcome:
        """Does it and takes it back: what is said is exactly what would happen, as with --dry-run."""
        return self._act(asked, who, dry_run=True)

    def do(self, asked: Asked, who: str) -> Outcome:
        return self._act(asked, who, dry_run=False)

    def _act(self, asked: Asked, who: str, dry_run: bool) -> Outcome:
        with self._connection(who) as connection:
            return MOVES[asked.action].make(connection, asked, who, dry_run)

    @contextlib.contextmanager
    def _connection(self, who: str) -> Iterator[psycopg.Connection]:
        try:
            with connect_to(self.url) as connection:
                require_known_schema(connection, default_folder())
                connection.execute("select set_config('lock_timeout', %s, false)", [_WAIT_FOR_LOCKS])
                act_as(connection, "dashboard", who)
                yield connection
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            raise DatabaseRefused("somebody else is changing the same thing right now", "try again") from error


def who_asks(request: Request) -> str:
    """The name given with the token, which nobody has proven; without one, where the request came from."""
    name = "".join(filter(str.isprintable, user_name(request.headers.get("authorization", ""))))
    if name.strip():
        return name.strip()[:_NAME_AT_MOST]
    return f"dashboard {request.client.host if request.client else 'visitor'}"
