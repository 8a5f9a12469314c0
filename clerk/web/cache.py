"""Single-flight cache of one value, so that many simultaneous requests cost the database one query."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from clerk.errors import ClerkError

logger = logging.getLogger(__name__)

T = TypeVar("T")
_MAX_STALENESS = 3


class CachedValue(Generic[T]):
    """Caches the result of `load` for `min_ttl` seconds, or `ttl_factor` times as long as loading took if longer.

    Callers that arrive while the value is being loaded wait for that load. With `stale_while_revalidate`, a value that
    is at most three times its TTL old is returned, and refreshed in the background.
    """

    def __init__(
        self, load: Callable[[], T], min_ttl: float, ttl_factor: float, stale_while_revalidate: bool = False
    ) -> None:
        self.load = load
        self.min_ttl = min_ttl
        self.ttl_factor = ttl_factor
        self.stale_while_revalidate = stale_while_revalidate
        self._loading = threading.Lock()
        self._cached: tuple[T, float, float] | None = None
        """The value, when it was loaded, and its TTL."""

    def get(self) -> T:
        if self._cached is not None and self.stale_while_revalidate:
            value, loaded_at, ttl = self._cached
            age = time.monotonic() - loaded_at
            if ttl <= age < _MAX_STALENESS * ttl and self._loading.acquire(blocking=False):
                threading.Thread(target=self._refresh_and_unlock, daemon=True).start()
            if age < _MAX_STALENESS * ttl:
                return value
        with self._loading:
            if self._cached is not None and time.monotonic() < self._cached[1] + self._cached[2]:
                return self._cached[0]
            return self._refresh()

    def warm(self) -> None:
        """Load before the first request. An error is ignored here: the request will raise it again."""
        with contextlib.suppress(ClerkError):
            self.get()

    def _refresh(self) -> T:
        started = time.monotonic()
        value = self.load()
        now = time.monotonic()
        self._cached = value, now, max(self.min_ttl, self.ttl_factor * (now - started))
        return value

    def _refresh_and_unlock(self) -> None:
        """Releases the lock that `get` acquired."""
        try:
            self._refresh()
        except ClerkError as error:
            logger.warning("the cached value could not be refreshed: %s", error)
        finally:
            self._loading.release()
