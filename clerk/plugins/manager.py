"""Loads plugins and calls their hooks.

Plugins come from clerk itself, from installed packages with an entry point in the group `clerk.plugins`, and from the
modules and packages of a folder (CLERK_PLUGINS_DIR, `--plugins-dir`). A plugin that cannot be loaded is listed as a
problem and affects only the sites that need it. Plugins loaded later are called first, so a plugin can replace a
built-in one.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pluggy

from clerk import API_VERSION
from clerk.config import Settings
from clerk.errors import InvalidPluginResult, PluginError, PluginMissing
from clerk.plugins import hookspecs, legacy
from clerk.plugins.folder import import_file, module_name, plugin_files
from clerk.plugins.isolation import HOOK_TIMEOUT, call_with_timeout, describe_error
from clerk.plugins.problems import check_hooks, describe_import_error, describe_unmarked
from clerk.suggestions import did_you_mean

logger = logging.getLogger(__name__)

GROUP = "clerk.plugins"
BUILT_IN = (
    "clerk.sources.vendors",
    "clerk.extraction.builtin",
    "clerk.ocr.builtin",
    "clerk.publish.deployers.local",
    "clerk.publish.deployers.command",
)


@dataclass(frozen=True)
class LoadedPlugin:
    """A plugin that was loaded."""

    name: str
    origin: str
    """`clerk itself`, a package and its version, or a file."""
    hooks: tuple[str, ...]


@dataclass(frozen=True)
class PluginProblem:
    """A plugin that could not be loaded, or a hook of it that is not called."""

    name: str
    origin: str
    error: str


@dataclass
class Plugins:
    manager: pluggy.PluginManager
    loaded: list[LoadedPlugin] = field(default_factory=list)
    problems: list[PluginProblem] = field(default_factory=list)
    _logged: int = 0
    """How many of the problems are in the log."""

    def add(self, plugin: object, name: str, origin: str) -> None:
        """Register a plugin. An unknown hook, wrong arguments or a hook wrapper make it a problem."""
        try:
            _check_api_version(plugin)
            self._check_name(name)
            check_hooks(plugin)
            self.manager.register(plugin, name)
            self.manager.check_pending()
        except Exception as error:  # noqa: BLE001 (any error of a plugin is reported as its problem)
            if self.manager.get_plugin(name) is plugin:
                self.manager.unregister(plugin)
            # A ValueError is clerk's own sentence.
            self._add_problem(name, origin, str(error) if type(error) is ValueError else describe_error(error))
            return
        for sentence in (*legacy.describe_unsupported(plugin), *describe_unmarked(plugin)):
            self._add_problem(name, origin, sentence)
        hooks = sorted(caller.name for caller in self.manager.get_hookcallers(plugin) or [])
        self.loaded.append(LoadedPlugin(name, origin, tuple(hooks)))

    def _check_name(self, name: str) -> None:
        for earlier in self.loaded:
            if earlier.name == name:
                raise ValueError(f"there is already a plugin {name} ({earlier.origin}): rename one of them")

    def load(self, name: str, origin: str, importer: Callable[[], object]) -> None:
        """Import and register a plugin. Any error makes it a problem."""
        try:
            objects = legacy.plugin_objects(importer())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (a module may call sys.exit)
            self._add_problem(name, origin, describe_import_error(error, origin))
            return
        for plugin in objects:
            self.add(plugin, name if len(objects) == 1 else f"{name}.{type(plugin).__name__}", origin)

    def _add_problem(self, name: str, origin: str, message: str) -> None:
        self.problems.append(PluginProblem(name, origin, message))

    def log_problems(self) -> None:
        """Log each problem, once per process."""
        for problem in self.problems[self._logged :]:
            logger.error("plugin %s (%s) cannot be used as it is: %s", problem.name, problem.origin, problem.error)
        self._logged = len(self.problems)

    def call_each(self, hook: str, /, timeout: float = HOOK_TIMEOUT, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Call a hook of each plugin in turn. Yields plugin name and result, except for results that are None."""
        for name, call in self.implementations(hook, **arguments):
            result = call_with_timeout(name, hook, call, timeout=timeout)
            if result is not None:
                yield name, result

    def implementations(self, hook: str, /, **arguments: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the name of each plugin that has the hook, and a function that calls it with these arguments.

        For callers that call `call_with_timeout` themselves.
        """
        for implementation in reversed(getattr(self.manager.hook, hook).get_hookimpls()):
            accepted = [arguments[name] for name in implementation.argnames]
            yield implementation.plugin_name, partial(implementation.function, *accepted)

    def call_first(self, hook: str, /, timeout: float = HOOK_TIMEOUT, **arguments: Any) -> tuple[str, Any] | None:
        """Return the name and result of the first plugin whose result is not None."""
        return next(self.call_each(hook, timeout, **arguments), None)

    def labels(self, hook: str) -> list[str]:
        """The labels that plugins say they provide by a hook. A plugin that cannot say it provides none here."""
        known: set[str] = set()
        for plugin, call in self.implementations("provided_labels", hook=hook):
            try:
                known.update(map(str, call_with_timeout(plugin, "provided_labels", call) or ()))
            except (PluginError, TypeError) as error:
                logger.error("the labels of plugin %s are not known: %s", plugin, error)
        return sorted(known)

    def resolve(self, hook: str, label: str, kind: type | None = None) -> tuple[str, Any]:
        """Return what a plugin provides under a label, and the plugin's name. `kind`: the required base class."""
        resolved = self.call_first(hook, label=label)
        if resolved is None:
            failed = ", ".join(f"{problem.name} ({problem.error})" for problem in self.problems)
            near = did_you_mean(label, self.labels(hook))
            notes = [f"not loaded: {failed}"] if failed else [near] if near else []
            raise PluginMissing("; ".join([f"no plugin provides {hook}({label!r})", *notes]))
        plugin, value = resolved
        if hook == "fetcher_class":
            value = legacy.adapt_fetcher(value)
        if kind is not None and not (inspect.isclass(value) and issubclass(value, kind)):
            raise InvalidPluginResult(
                f"plugin {plugin} returned {str(value)[:100]!r} from {hook}({label!r}), "
                f"not a class derived from {kind.__name__}"
            )
        return plugin, value


def _check_api_version(plugin: object) -> None:
    """Raise if the plugin's CLERK_API_VERSION, the oldest version of the plugin API that it works with, is newer."""
    wanted = getattr(plugin, "CLERK_API_VERSION", 1)
    if not isinstance(wanted, int) or wanted < 1:
        raise ValueError(f"CLERK_API_VERSION must be a number of 1 or more, not {str(wanted)[:50]!r}")
    if wanted > API_VERSION:
        raise ValueError(f"it needs version {wanted} of the plugin API; this clerk has {API_VERSION}: upgrade clerk")


def load(settings: Settings, *, log_problems: bool = True) -> Plugins:
    """Return all plugins. They are loaded once per process and folder. `log_problems`: unless the caller shows them."""
    plugins = _load(settings.plugins_dir)
    if log_problems:
        plugins.log_problems()
    return plugins


@lru_cache
def _load(folder: Path | None) -> Plugins:
    manager = legacy.HookManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    plugins = Plugins(manager)
    # What plugins print while they are imported must not be in the output of a command.
    with contextlib.redirect_stdout(sys.stderr):
        for module in BUILT_IN:
            if importlib.util.find_spec(module) is not None:
                plugins.load(module, "clerk itself", partial(importlib.import_module, module))
        for entry in importlib.metadata.entry_points(group=GROUP):
            package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an installed package"
            plugins.load(entry.name, package, entry.load)
        for file in plugin_files(folder) if folder else []:
            plugins.load(module_name(file), str(file), partial(import_file, file))
    return plugins
