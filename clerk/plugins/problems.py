"""What is wrong with a plugin, in words for its author: what happened, at which line, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from clerk.plugins import hookspecs
from clerk.plugins.isolation import describe_error, own_line
from clerk.plugins.legacy import UNSUPPORTED_HOOKS
from clerk.suggestions import did_you_mean

HOOKS: Mapping[str, Callable[..., Any]] = {
    name: value for name, value in vars(hookspecs).items() if hasattr(value, f"{hookspecs.PROJECT}_spec")
}
_MARK = f"{hookspecs.PROJECT}_impl"


def describe_import_error(error: BaseException, origin: str) -> str:
    """An error of importing a plugin. `origin`: its file, if it has one."""
    return f"{describe_error(error)}{_line(error)}{_hint(error, Path(origin))}"


def _line(error: BaseException) -> str:
    return "" if isinstance(error, SyntaxError) or not (line := own_line(error)) else f" ({line})"


def _hint(error: BaseException, file: Path) -> str:
    if isinstance(error, SyntaxError) and "(unicode error)" in str(error):
        return ": save the file as UTF-8"
    if not isinstance(error, ImportError) or error.name is None:
        return ""
    if error.name.split(".")[0] == hookspecs.PROJECT:
        return ": plugins use `from clerk import …`; docs/how-to/plugin-author.md lists the names"
    if not isinstance(error, ModuleNotFoundError):
        return ""
    name = error.name.split(".")[0]
    if file.name == "__init__.py" and file.parent.name == name:
        return ": a package of the plugin folder imports its own modules with `from . import …`"
    if (file.parent / f"{name}.py").is_file():
        inside = "import it with `from . import …`" if file.name == "__init__.py" else "make a package of both files"
        return f": {name}.py is beside the plugin, in a folder that Python does not search; {inside}"
    return ": install it in clerk's environment"


def check_hooks(plugin: object) -> None:
    """Raise ValueError for a hook that does not exist, and for arguments that clerk does not give."""
    for name, function in _members(plugin):
        options = getattr(function, _MARK, None)
        if not inspect.isroutine(function) or options is None or name in UNSUPPORTED_HOOKS:
            continue
        hook = options.get("specname") or name
        if hook not in HOOKS:
            near = did_you_mean(hook, HOOKS)
            raise ValueError(f"there is no hook {hook}{f'; {near}' if near else ''} ({_location(function)})")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise ValueError(f"{hook} is a hook wrapper; clerk supports plain hook functions only")
        given = list(inspect.signature(HOOKS[hook]).parameters)
        if unknown := [argument for argument in _required(function) if argument not in given]:
            may = f"it may have {', '.join(given)}" if given else "it has none"
            raise ValueError(
                f"{hook} has an argument that clerk does not give: {unknown[0]}; {may} ({_location(function)})"
            )


def describe_unmarked(plugin: object) -> Iterator[str]:
    """One sentence for each function that has the name of a hook and is not marked, so that it is never called, and
    for each class that is marked."""
    for hook in HOOKS:
        function = getattr(plugin, hook, None)
        if not inspect.isroutine(function) or hasattr(function, _MARK):
            continue
        # A module may import a function of this name for its own use.
        if not isinstance(plugin, ModuleType) or function.__module__ == plugin.__name__:
            yield (
                f"the function {hook} is not called: mark it with @hookimpl (from clerk import hookimpl) "
                f"({_location(function)})"
            )
    for name, value in _members(plugin):
        if inspect.isclass(value) and _MARK in vars(value):
            yield f"the class {name} is marked with @hookimpl, which is for functions: a hook such as fetcher_class"


def _members(plugin: object) -> list[tuple[str, Any]]:
    return [(name, getattr(plugin, name, None)) for name in dir(plugin)]


def _required(function: Callable[..., Any]) -> list[str]:
    """The arguments without a default, which are those that a hook asks for by their names."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in positional and each.default is each.empty]


def _location(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code is not None else "not a Python function"
