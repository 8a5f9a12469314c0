"""Removes a guard from the code of a function, for the duration of a block."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType


@dataclass(frozen=True)
class Guard:
    name: str
    function: Callable[..., object]
    text: str
    """Part of the function's text, which must contain it exactly once."""
    replacement: str
    test: Callable[..., None]
    """It must fail without the guard."""
    failure: str
    """What it says then: a regular expression."""


@contextmanager
def removed(guard: Guard) -> Iterator[None]:
    """Give the function the code of its text without the guard. Whoever has imported the function uses that code."""
    function = inspect.unwrap(guard.function)
    assert isinstance(function, FunctionType)
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(guard.text) == 1, f"{function.__qualname__} has {text.count(guard.text)} times: {guard.text}"
    module = compile(text.replace(guard.text, guard.replacement), inspect.getfile(function), "exec")
    code = next(c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == function.__name__)
    original = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original
