"""Executes operator actions: each on its own connection, recorded under the name of the user who requested it.

The pages' ReadOnlyPool is never used for this: its connections cannot write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from starlette.requests import Request

from clerk.config import DATABASE_URL
from clerk.db.audit import set_actor
from clerk.db.connection import connect_to
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.errors import DatabaseRefused
from clerk.web.action_request import ActionRequest, ActionResult
from clerk.web.actions import ACTIONS
from clerk.web.auth import user_name
from clerk.web.confirmation import ConfirmationTokens

_LOCK_TIMEOUT = "5s"
_MAX_USER_LENGTH = 80


class ActionExecutor:
    def __init__(self, url: str, setting: str = DATABASE_URL) -> None:
        """`setting`: the name of the one that has the URL, for messages."""
        self.url = url
        self.setting = setting
        self.tokens = ConfirmationTokens()

    def preview(self, request: ActionRequest, user: str) -> ActionResult:
        """Run the action and roll it back, as --dry-run does, so that the result is what would really happen."""
        return self._run(request, user, dry_run=True)

    def execute(self, request: ActionRequest, user: str) -> ActionResult:
        return self._run(request, user, dry_run=False)

    def _run(self, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
        with self.connection(user) as connection:
            return ACTIONS[request.action].run(connection, request, user, dry_run)

    @contextlib.contextmanager
    def connection(self, user: str) -> Iterator[psycopg.Connection]:
        """A new connection on which actions are recorded under the user's name."""
        try:
            with connect_to(self.url, setting=self.setting) as connection:
                require_known_schema(connection, default_folder())
                connection.execute("select set_config('lock_timeout', %s, false)", [_LOCK_TIMEOUT])
                set_actor(connection, "dashboard", user)
                yield connection
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            raise DatabaseRefused("another transaction is changing the same rows", "try again") from error


def request_user(request: Request) -> str:
    """The user name of Basic authentication, which is not verified; without one, the client's address."""
    name = "".join(filter(str.isprintable, user_name(request.headers.get("authorization", ""))))
    if name.strip():
        return name.strip()[:_MAX_USER_LENGTH]
    return f"dashboard {request.client.host if request.client else 'user'}"
