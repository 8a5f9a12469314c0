"""What is read once for all who ask at about the same time, so that many visitors cost the pipeline one look."""

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
_TOO_OLD = 3


class CachedValue(Generic[T]):
    """Keeps what `read` gave for `least` seconds, or for `rest` times as long as reading took if that is longer.

    Whoever asks meanwhile gets the same; whoever asks while it is read waits for it instead of reading too. With
    `behind`, a value that is not much older is given once more, and read again behind the back of who asked.
    """

    def __init__(self, read: Callable[[], T], least: float, rest: float, behind: bool = False) -> None:
        self.read = read
        self.least = least
        self.rest = rest
        self.behind = behind
        self._reading = threading.Lock()
        self._kept: tuple[T, float, float] | None = None
        """The value, when it was read, and for how long it is good."""

    def get(self) -> T:
        if self._kept is not None and self.behind:
            value, since, lasts = self._kept
            age = time.monotonic() - since
            if lasts <= age < _TOO_OLD * lasts and self._reading.acquire(blocking=False):
                threading.Thread(target=self._read_behind, daemon=True).start()
            if age < _TOO_OLD * lasts:
                return value
        with self._reading:
            if self._kept is not None and time.monotonic() < self._kept[1] + self._kept[2]:
                return self._kept[0]
            return self._read()

    def warm(self) -> None:
        """Read before anybody asks. Whoever asks will hear what is wrong, if anything is."""
        with contextlib.suppress(ClerkError):
            self.get()

    def _read(self) -> T:
        began = time.monotonic()
        value = self.read()
        now = time.monotonic()
        self._kept = value, now, max(self.least, self.rest * (now - began))
        return value

    def _read_behind(self) -> None:
        """Takes over the lock of the one that asked."""
        try:
            self._read()
        except ClerkError as error:
            logger.warning("%s", error)
        finally:
            self._reading.release()
