"""A fork server that always sees the exit of a reader process together with the closed socket of its worker.

In production the two coincide now and then, on a busy machine. The exit comes first.
"""

from __future__ import annotations

import selectors

from clerk.ocr import fork_server
from tests.helpers import until


class CoincidingSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(timeout)
        if any(_is_exit(event) or _is_closed(event) for event in events):
            until(lambda: self._has_both(super(CoincidingSelector, self).select(0)))
            events = super().select(0)
        return sorted(events, key=_is_exit, reverse=True)

    def _has_both(self, events: list[tuple[selectors.SelectorKey, int]]) -> bool:
        return any(map(_is_exit, events)) and any(map(_is_closed, events))


def _is_exit(event: tuple[selectors.SelectorKey, int]) -> bool:
    return isinstance(event[0].fileobj, int)


def _is_closed(event: tuple[selectors.SelectorKey, int]) -> bool:
    return event[0].data is not None  # the id of the reader process


if __name__ == "__main__":
    selectors.DefaultSelector = CoincidingSelector  # type: ignore[misc]
    fork_server.main()
