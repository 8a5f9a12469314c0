"""Calls plugin code in a thread with a timeout, so that a failing plugin fails only its own unit, under its name.

A thread cannot be killed: after a timeout the call is abandoned and its daemon thread keeps running until it returns or
the process exits.
Limitation: a plugin that ends the process (`os._exit`, a segmentation fault) ends the worker. The engine then gives the
unit to another worker, up to the stage's limit of rescues.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from clerk.error_causes import is_host_error
from clerk.errors import (
    ArchiveDamaged,
    ArchiveMissing,
    CommandFailed,
    CommandTimeout,
    CommandUnset,
    JobError,
    PluginFailed,
    PluginRaised,
    PluginTimeout,
    SpacyUnavailable,
    StorageConflict,
)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

HOOK_TIMEOUT = 300.0
"""Default timeout of a hook call, in seconds."""
_POLL_INTERVAL = 0.5
_ERRORS_OF_BUILT_IN = (
    ArchiveDamaged,
    ArchiveMissing,
    CommandFailed,
    CommandTimeout,
    CommandUnset,
    SpacyUnavailable,
    StorageConflict,
)
"""Errors of built-in deployers and extractors. They are raised unchanged, so that units get their code and remedy."""


class Heartbeat:
    """Time of the last sign of progress. Restarts the timeout of a call that is slow but not hanging."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def beat(self) -> None:
        self.last = time.monotonic()


class _Call(threading.Thread, Generic[Result]):
    def __init__(self, name: str, call: Callable[[], Result]) -> None:
        super().__init__(name=name, daemon=True)
        # For the log lines and spans of the call: a new thread has an empty context.
        self.context = contextvars.copy_context()
        self.call = call
        self.returned = threading.Event()
        self.result: Result
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 (SystemExit must not count as a result either)
            self.error = error
        self.returned.set()


def call_with_timeout(
    plugin: str,
    hook: str,
    call: Callable[[], Result],
    *,
    timeout: float = HOOK_TIMEOUT,
    heartbeat: Heartbeat | None = None,
    while_waiting: Callable[[], None] = lambda: None,
    expected: tuple[type[BaseException], ...] = (),
) -> Result:
    """Return the result of `call`, or raise one of the plugin errors.

    The timeout counts from the start of the call or from the last beat of `heartbeat`. Errors of the `expected` types
    are raised unchanged, because they are clerk's and not the plugin's; so are those of the host, such as a full disk,
    but not missing permissions, which may be those of the plugin's own files. `while_waiting` is called in the caller's
    thread every half second and may raise to abandon the call.
    """
    heartbeat = heartbeat or Heartbeat()
    heartbeat.beat()
    thread = _Call(f"{plugin}: {hook}", call)
    thread.start()
    while not thread.returned.wait(min(_POLL_INTERVAL, max(heartbeat.last + timeout - time.monotonic(), 0.01))):
        if time.monotonic() - heartbeat.last > timeout:
            logger.error("plugin %s did not return from %s within %g s; the call is abandoned", plugin, hook, timeout)
            raise PluginTimeout(f"plugin {plugin} did not return from {hook} within {timeout:g} s")
        while_waiting()
    match thread.error:
        case None:
            return thread.result
        case error if isinstance(error, (*expected, *_ERRORS_OF_BUILT_IN)):
            raise error
        case OSError() as error if is_host_error(error) and not isinstance(error, PermissionError):
            raise error
        case JobError(retryable=False) as error:
            raise PluginFailed(f"plugin {plugin} failed in {hook}: {_describe(error)}") from error
        case error:
            raise PluginRaised(f"plugin {plugin} raised in {hook}: {_describe(error)}") from error


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 (str() of a plugin's error may raise)
        return type(error).__name__
