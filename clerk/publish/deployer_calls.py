"""The deployers that plugins provide, as functions to call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from clerk.documents.storage import SiteStorage, local_copy
from clerk.object_storage.path import StoragePath
from clerk.plugins.manager import Plugins

BUILT_IN = "clerk.publish.deployers."
_HOOK = "deploy_municipality"


def deployer_calls(
    plugins: Plugins, storage: SiteStorage[StoragePath], check_claim: Callable[[], None]
) -> dict[str, Callable[[], Any]]:
    """Function by name of the plugin. An archive in a bucket is copied to this machine when a plugin is called."""
    common = {"subdomain": storage.subdomain, "check_claim": check_claim}

    def call(name: str) -> Any:
        with local_copy(storage.database) as file:
            return dict(plugins.implementations(_HOOK, **common, database_path=file))[name]()

    # The built-in ones find the archive themselves.
    found = plugins.implementations(_HOOK, **common, database_path=Path())
    return {name: function if name.startswith(BUILT_IN) else partial(call, name) for name, function in found}
