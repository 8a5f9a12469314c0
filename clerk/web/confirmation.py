"""One-time CSRF tokens: each proves that this browser was shown the action's preview, and is accepted once.

A token is bound by HMAC to a secret of this process, the browser's cookie, the user's name and the exact action, so it
cannot be forged or used for another action. Limitation: a restart of the dashboard invalidates all open tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time

TTL = 3600.0
IN_PROGRESS = "This action was already submitted and is in progress."


class InvalidToken(Exception):
    """The token is missing, forged, expired, or was issued for another browser, user or action."""


def new_browser_id() -> str:
    return secrets.token_urlsafe(32)


class ConfirmationTokens:
    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._used: dict[str, tuple[float, str]] = {}
        """Nonce of each used token → when the entry expires, and the result to show."""

    def issue(self, *bound: str) -> str:
        nonce, expires_at = secrets.token_urlsafe(16), f"{time.monotonic() + TTL:.0f}"
        return f"{nonce}.{expires_at}.{self._sign(nonce, expires_at, *bound)}"

    def verify(self, token: str, *bound: str) -> str:
        """Return the token's nonce; raise InvalidToken."""
        parts = token.split(".")
        if len(parts) != 3 or not token.isascii():
            raise InvalidToken
        nonce, expires_at, signature = parts
        expected = self._sign(nonce, expires_at, *bound)
        if not hmac.compare_digest(signature, expected) or float(expires_at) < time.monotonic():
            raise InvalidToken
        return nonce

    def claim(self, nonce: str) -> bool:
        """True for the first request with this token, False for a second click."""
        now = time.monotonic()
        with self._lock:
            self._used = {used: entry for used, entry in self._used.items() if entry[0] > now}
            if nonce in self._used:
                return False
            self._used[nonce] = now + TTL, IN_PROGRESS
            return True

    def set_result(self, nonce: str, message: str) -> None:
        with self._lock:
            self._used[nonce] = time.monotonic() + TTL, message

    def result(self, nonce: str) -> str | None:
        """The message of a used token; None if there is no such token."""
        with self._lock:
            return self._used.get(nonce, (0.0, None))[1]

    def _sign(self, *parts: str) -> str:
        return hmac.new(self._secret, json.dumps(parts).encode(), hashlib.sha256).hexdigest()
