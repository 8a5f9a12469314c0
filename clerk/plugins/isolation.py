"""Calls plugin code in a thread with a timeout, so that a failing plugin fails only its own unit, under its name.

A thread cannot be killed: after a timeout the call is abandoned and its daemon thread keeps running until it returns or
the process exits.
Limitation: a plugin that ends the process (`os._exit`, a segmentation fault) ends the worker. The engine then gives the
unit to another worker, up to the stage's limit of rescues.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
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
    PluginProgrammingError,
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

_PROGRAMMING_ERRORS = (
    AttributeError,
    KeyError,
    IndexError,
    NameError,
    TypeError,
    ImportError,
    NotImplementedError,
)
"""Errors of a plugin's code: the same call fails in the same way until the code is corrected."""
_CLERK_FOLDER = Path(__file__).parents[1]
_LIBRARY_FOLDER = Path(sysconfig.get_path("stdlib"))
_PACKAGES = "site-packages"


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
            late = f"plugin {plugin} did not return from {hook} within {timeout:g} s{_running_at(thread)}"
            logger.error("%s; the call is abandoned", late)
            raise PluginTimeout(late)
        while_waiting()
    match thread.error:
        case None:
            return thread.result
        case error if isinstance(error, (*expected, *_ERRORS_OF_BUILT_IN)):
            raise error
        case OSError() as error if is_host_error(error) and not isinstance(error, PermissionError):
            raise error
        case JobError(retryable=False) as error:
            raise PluginFailed(f"plugin {plugin} failed in {hook}: {describe_error(error)}") from error
        case error:
            raise as_job_error(plugin, hook, error) from error


def as_job_error(plugin: str, hook: str, error: BaseException) -> PluginProgrammingError | PluginRaised:
    """The error to record for an exception that a plugin raised: permanent if its code must be corrected first."""
    kind = PluginProgrammingError if isinstance(error, _PROGRAMMING_ERRORS) else PluginRaised
    return kind(f"plugin {plugin} raised in {hook}: {describe_error(error)}{_raised_at(error)}")


def describe_error(error: BaseException) -> str:
    """Type and message of an exception."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 (str() of a plugin's error may raise)
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def own_line(error: BaseException) -> str:
    """The innermost line of the plugin: file, line and function. Empty if none of its lines was reached."""
    own = _own_frames(traceback.extract_tb(error.__traceback__))
    return _location(own[-1]) if own else ""


def _raised_at(error: BaseException) -> str:
    """The innermost line of the plugin, or the line at which it was called."""
    if line := own_line(error):
        return f" ({line})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return f" (called at {_location(frames[-1])})" if frames else ""


def _running_at(thread: threading.Thread) -> str:
    """The innermost line of the plugin that a thread executes, in words. Empty while it waits in an event loop."""
    frame = sys._current_frames().get(thread.ident or 0)
    own = _own_frames(list(traceback.extract_stack(frame))) if frame is not None else []
    return f"; it is at {_location(own[-1])}" if own else ""


def _own_frames(frames: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Those of the plugin. Of installed packages only if there are no others, since a plugin may be one."""
    outside = [frame for frame in frames if not _is_library(frame.filename)]
    return [frame for frame in outside if _PACKAGES not in Path(frame.filename).parts] or outside


def _location(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}, line {frame.lineno}, in {frame.name}"


def _is_library(filename: str) -> bool:
    """A module of clerk or of Python's standard library."""
    file = Path(filename)
    if filename.startswith("<frozen") or file.is_relative_to(_CLERK_FOLDER):
        return True
    return file.is_relative_to(_LIBRARY_FOLDER) and _PACKAGES not in file.parts
