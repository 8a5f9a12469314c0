"""Proof that whoever posts an action has seen, in this browser, what it would do; and that it is done only once.

A confirmation is bound to a secret of this process, the visitor's cookie, the visitor's name and the exact action, so
that no other page can make one up, and none can be turned into another action. The catch: after a restart of the
dashboard, open confirmations have to be asked for again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time

VALID_FOR = 3600.0
ASKED_BEFORE = "This was asked for before, and is being done."


class NotConfirmed(Exception):
    """The token is missing, made up, somebody else's, for something else, or too old."""


def new_visitor() -> str:
    return secrets.token_urlsafe(32)


class ConfirmationTokens:
    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._used: dict[str, tuple[float, str]] = {}
        """Which confirmations were posted, when they can be forgotten, and what to tell about them."""

    def issue(self, *bound: str) -> str:
        nonce, until = secrets.token_urlsafe(16), f"{time.monotonic() + VALID_FOR:.0f}"
        return f"{nonce}.{until}.{self._sign(nonce, until, *bound)}"

    def accept(self, token: str, *bound: str) -> str:
        """The confirmation's own name; raises NotConfirmed."""
        parts = token.split(".")
        if len(parts) != 3 or not token.isascii():
            raise NotConfirmed
        nonce, until, signature = parts
        if not hmac.compare_digest(signature, self._sign(nonce, until, *bound)) or float(until) < time.monotonic():
            raise NotConfirmed
        return nonce

    def claim(self, nonce: str) -> bool:
        """True for the first to post this confirmation, False for a second click."""
        now = time.monotonic()
        with self._lock:
            self._used = {used: kept for used, kept in self._used.items() if kept[0] > now}
            if nonce in self._used:
                return False
            self._used[nonce] = now + VALID_FOR, ASKED_BEFORE
            return True

    def tell(self, nonce: str, what: str) -> None:
        with self._lock:
            self._used[nonce] = time.monotonic() + VALID_FOR, what

    def told(self, nonce: str) -> str | None:
        """What came of a confirmation; None if there was no such."""
        with self._lock:
            return self._used.get(nonce, (0.0, None))[1]

    def _sign(self, *parts: str) -> str:
        return hmac.new(self._secret, json.dumps(parts).encode(), hashlib.sha256).hexdigest()
