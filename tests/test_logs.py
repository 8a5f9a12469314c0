from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from clerk import logs
from clerk.errors import PluginProgrammingError, PluginRaised, SiteNotFound


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("human", stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [
        (SiteNotFound("there is no site x", "add it"), False),
        (PluginRaised("mine"), True),
        (PluginProgrammingError("mine"), True),
        (KeyError("x"), True),
    ],
)
def test_only_unexpected_errors_and_errors_in_plugins_have_a_traceback(
    written: io.StringIO, error: Exception, has_traceback: bool
) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger("x").exception("job failed")
    assert type(error).__name__ in written.getvalue()
    assert ("Traceback" in written.getvalue()) == has_traceback
