"""A plugin's code is called so that whatever it does fails its own unit, with its name, and nothing else.

The call runs in a thread of its own. One that hangs is given up after a time limit: a thread cannot be killed, so
it stays behind, as a daemon that keeps nobody from ending. Not held off: a plugin that takes the process down
(`os._exit`, a segfault); then the engine's rescue gives the unit to another worker, a few times at most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from clerk.errors import JobError, PluginFailed, PluginRaised, PluginTimeout

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

HOOK_TAKES_AT_MOST = 300.0
"""Seconds, unless the caller knows better."""
_GLANCE = 0.5


class Heartbeat:
    """What a long call shows from time to time, so that slow and hanging can be told apart."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def show(self) -> None:
        self.last = time.monotonic()


class _Call(threading.Thread, Generic[Result]):
    def __init__(self, name: str, call: Callable[[], Result]) -> None:
        super().__init__(name=name, daemon=True)
        self.call = call
        self.returned = threading.Event()
        self.result: Result
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001 (SystemExit too must not pass for a result)
            self.error = error
        self.returned.set()


def call_with_timeout(
    plugin: str,
    hook: str,
    call: Callable[[], Result],
    *,
    limit: float = HOOK_TAKES_AT_MOST,
    life: Heartbeat | None = None,
    while_waiting: Callable[[], None] = lambda: None,
    expected: tuple[type[BaseException], ...] = (),
) -> Result:
    """What `call` returns, or one of the errors above. `limit` counts from the start, or from the last sign of life.

    Errors of `expected` kinds are clerk's own, not the plugin's, and pass as they are. `while_waiting` is called
    now and then in the caller's thread, and may raise to leave.
    """
    life = life or Heartbeat()
    life.show()
    thread = _Call(f"{plugin}: {hook}", call)
    thread.start()
    while not thread.returned.wait(min(_GLANCE, max(life.last + limit - time.monotonic(), 0.01))):
        if time.monotonic() - life.last > limit:
            logger.error("plugin %s hangs in %s: given up", plugin, hook)
            raise PluginTimeout(f"plugin {plugin} did not come back from {hook} within {limit:g} s")
        while_waiting()
    match thread.error:
        case None:
            return thread.result
        case error if isinstance(error, expected):
            raise error
        case JobError(retryable=False) as error:
            raise PluginFailed(f"plugin {plugin} failed in {hook}: {_said(error)}") from error
        case error:
            raise PluginRaised(f"plugin {plugin} raised in {hook}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 (an error whose own text raises is still an error)
        return type(error).__name__
