"""Imports the modules and packages of the plugin folder (CLERK_PLUGINS_DIR)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

MODULE_PREFIX = "clerk_plugins_dir_"


def plugin_files(folder: Path) -> list[Path]:
    """Modules and packages directly in the folder, sorted by name. Names that begin with _ or . are ignored."""
    if not folder.is_dir():
        return []
    return sorted(
        path / "__init__.py" if path.is_dir() else path
        for path in folder.iterdir()
        if not path.name.startswith(("_", "."))
        and (path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file())
    )


def module_name(file: Path) -> str:
    return file.parent.name if file.name == "__init__.py" else file.stem


def import_file(file: Path) -> ModuleType:
    """Import under a prefixed name, so that a plugin called `json.py` does not replace the standard module."""
    name = f"{MODULE_PREFIX}{module_name(file)}"
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
