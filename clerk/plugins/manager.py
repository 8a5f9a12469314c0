"""Which plugins there are, where they came from, and how their hooks are called.

Three sources: clerk's own, installed packages with an entry point in the group `clerk.plugins`, and the files and
packages of a folder (CLERK_PLUGINS_DIR, `--plugins-dir`). One that cannot be loaded is remembered as a problem and
harms nobody but the sites that need it. Later ones go first, so a plugin can take the place of a built-in.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from clerk.config import Settings
from clerk.errors import InvalidPluginResult, PluginMissing
from clerk.plugins import hookspecs
from clerk.plugins.isolation import HOOK_TAKES_AT_MOST, call_with_timeout

logger = logging.getLogger(__name__)

GROUP = "clerk.plugins"
BUILT_IN = (
    "clerk.sources.vendors",
    "clerk.extraction.extractors",
    "clerk.publish.deployers.local",
    "clerk.publish.deployers.command",
)


@dataclass(frozen=True)
class Loaded:
    """A plugin that is in use."""

    name: str
    origin: str
    """`clerk itself`, the package and its version, or a file."""
    hooks: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """A plugin that is not, and why."""

    name: str
    origin: str
    error: str


@dataclass
class Plugins:
    manager: pluggy.PluginManager
    loaded: list[Loaded] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, plugin: object, name: str, origin: str) -> None:
        """Register one. Functions with the name of a hook but the wrong arguments make it a problem."""
        try:
            self.manager.register(plugin, name)
            self._check_hooks(name)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is the plugin's)
            if self.manager.get_plugin(name) is plugin:
                self.manager.unregister(plugin)
            self._problem(name, origin, error)
            return
        hooks = sorted(caller.name for caller in self.manager.get_hookcallers(plugin) or [])
        self.loaded.append(Loaded(name, origin, tuple(hooks)))

    def _check_hooks(self, name: str) -> None:
        self.manager.check_pending()
        for caller in self.manager.get_hookcallers(self.manager.get_plugin(name)) or []:
            for implementation in caller.get_hookimpls():
                if implementation.plugin_name == name and (implementation.wrapper or implementation.hookwrapper):
                    raise ValueError(f"{caller.name} is a wrapper, which clerk does not call")

    def add_from(self, name: str, origin: str, load: Callable[[], object]) -> None:
        try:
            plugin = load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (a module may even call sys.exit)
            self._problem(name, origin, error)
            return
        self.add(plugin, name, origin)

    def _problem(self, name: str, origin: str, error: BaseException) -> None:
        said = f"{type(error).__name__}: {error}"
        logger.error("plugin %s (%s) cannot be used: %s", name, origin, said)
        self.problems.append(Problem(name, origin, said))

    def call_each(self, hook: str, /, limit: float = HOOK_TAKES_AT_MOST, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Call a hook in plugin after plugin: (plugin's name, what it returned), without those that returned None."""
        for name, call in self.implementations(hook, **arguments):
            result = call_with_timeout(name, hook, call, limit=limit)
            if result is not None:
                yield name, result

    def implementations(self, hook: str, /, **arguments: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Each plugin that has the hook, and its call with these arguments: for callers with a guard of their own."""
        for implementation in reversed(getattr(self.manager.hook, hook).get_hookimpls()):
            chosen = [arguments[name] for name in implementation.argnames]
            yield implementation.plugin_name, _bound(implementation.function, chosen)

    def call_first(self, hook: str, /, limit: float = HOOK_TAKES_AT_MOST, **arguments: Any) -> tuple[str, Any] | None:
        """The first plugin that returns something, and what it returned."""
        return next(self.call_each(hook, limit, **arguments), None)

    def provided(self, hook: str, label: str, kind: type | None = None) -> tuple[str, Any]:
        """What a plugin provides under a label, and which: a class derived from `kind`, if that is given."""
        found = self.call_first(hook, label=label)
        if found is None:
            broken = ", ".join(f"{problem.name} ({problem.error})" for problem in self.problems)
            raise PluginMissing(f"no plugin provides {hook}({label!r})" + (f"; not loaded: {broken}" if broken else ""))
        plugin, value = found
        if kind is not None and not (inspect.isclass(value) and issubclass(value, kind)):
            said = f"plugin {plugin} returned {str(value)[:100]!r} from {hook}({label!r})"
            raise InvalidPluginResult(f"{said}, not a class derived from {kind.__name__}")
        return plugin, value


def _bound(function: Callable[..., Any], arguments: list[Any]) -> Callable[[], Any]:
    return lambda: function(*arguments)


def load(settings: Settings) -> Plugins:
    """All plugins of this process; loaded once per folder."""
    return _load(settings.plugins_dir)


@lru_cache
def _load(folder: Path | None) -> Plugins:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    plugins = Plugins(manager)
    for module in BUILT_IN:
        if importlib.util.find_spec(module) is not None:
            plugins.add_from(module, "clerk itself", lambda module=module: importlib.import_module(module))  # type: ignore[misc]
    for entry in importlib.metadata.entry_points(group=GROUP):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an installed package"
        plugins.add_from(entry.name, package, entry.load)
    for file in _plugin_files(folder) if folder else []:
        plugins.add_from(_module_name(file), str(file), lambda file=file: _import_file(file))  # type: ignore[misc]
    return plugins


def _plugin_files(folder: Path) -> list[Path]:
    """Modules and packages that lie directly in the folder, by name; what begins with _ or . is passed over."""
    if not folder.is_dir():
        return []
    return sorted(
        path / "__init__.py" if path.is_dir() else path
        for path in folder.iterdir()
        if not path.name.startswith(("_", "."))
        and (path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file())
    )


def _module_name(file: Path) -> str:
    return file.parent.name if file.name == "__init__.py" else file.stem


def _import_file(file: Path) -> ModuleType:
    """Under a name of its own in sys.modules, so that a plugin called `json.py` does not become everybody's json."""
    name = f"clerk_plugins_dir_{_module_name(file)}"
    package = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=package)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
