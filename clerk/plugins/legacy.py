"""What plugins of legacy clerk need: hooks that clerk does not call, plugins that are classes, and fetcher classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pluggy

UNSUPPORTED_HOOKS = {
    "register_job_types": "do the work in post_compilation, or in a command of register_cli_commands",
    "register_worker_functions": "every clerk worker runs all stages; do the work in post_compilation or post_deploy",
    "get_data_processors": "add tables to the archive in post_compilation, which publishes them",
}
"""Hook of legacy clerk → what to use instead."""
_ADAPTER = "clerk.legacy.fetcher_adapter"
"""Imported by name, because it belongs to a higher layer."""


class HookManager(pluggy.PluginManager):
    """Ignores unsupported hooks of legacy clerk, so that the other hooks of such a plugin are called."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        return None if name in UNSUPPORTED_HOOKS else super().parse_hookimpl_opts(plugin, name)


def describe_unsupported(plugin: object) -> Iterator[str]:
    """One sentence for each hook of the plugin that is not called."""
    for hook, instead in UNSUPPORTED_HOOKS.items():
        if _is_hook(getattr(plugin, hook, None)):
            yield f"the hook {hook} of legacy clerk is not called: {instead}"


def plugin_objects(plugin: object) -> list[object]:
    """The objects to register: an instance of a plugin class, also of those in a module without hook functions."""
    if inspect.isclass(plugin):
        return [plugin()]
    if isinstance(plugin, ModuleType) and not any(map(_is_hook, vars(plugin).values())):
        own = [kind for kind in vars(plugin).values() if inspect.isclass(kind) and kind.__module__ == plugin.__name__]
        classes = [kind for kind in own if any(map(_is_hook, vars(kind).values()))]
        return [kind() for kind in classes] or [plugin]
    return [plugin]


def _is_hook(value: object) -> bool:
    return inspect.isroutine(value) and hasattr(value, "clerk_impl")


def adapt_fetcher(value: object) -> object:
    """A fetcher class of legacy clerk, which has `fetch_events`, as a Fetcher; any other value unchanged."""
    if not inspect.isclass(value) or not hasattr(value, "fetch_events"):
        return value
    return import_module(_ADAPTER).adapt(value)
