"""Notices an extractor whose code was edited without a new version, by a hash of its code.

Findings are cached by version, so after such an edit documents have findings of the old code and of the new. clerk does
not extract again, because the version is the author's decision, but reports it in the view `edited_extractors`.
Limitation: the hash covers the extractor's module, or all modules of its package, not what these import from elsewhere.
"""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg

_OWN_PACKAGE = __name__.partition(".")[0]
_recorded: set[tuple[str, str, str, str]] = set()
"""What this process has recorded: database, extractor, version, code."""


def code_hash(extractor: object) -> str | None:
    """Hash of the code of a plugin's extractor. None for clerk's own, and if its source files cannot be read."""
    name = str(getattr(getattr(extractor, "extract", None), "__module__", "")).partition(".")[0]
    module = sys.modules.get(name)
    return None if module is None or name == _OWN_PACKAGE else _hash_module(module)


@lru_cache
def _hash_module(module: ModuleType) -> str | None:
    digest = hashlib.sha256()
    try:
        for label, file in _source_files(module):
            content = file.read_bytes()
            digest.update(f"{label} {len(content)}\n".encode())
            digest.update(content)
    except OSError:  # for example a package in a zip file
        return None
    return digest.hexdigest()


def _source_files(module: ModuleType) -> list[tuple[str, Path]]:
    """Name within the plugin and path of each source file, in a fixed order."""
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    if not folders:
        return [("", Path(module.__file__))] if module.__file__ else []
    return sorted((file.relative_to(folder).as_posix(), file) for folder in folders for file in folder.rglob("*.py"))


def record_use(connection: psycopg.Connection[Any], label: str, version: str, plugin: str, code: str) -> None:
    """Record, once per process, that a worker uses this code under this version."""
    key = (connection.info.dsn, label, version, code)
    if key in _recorded:
        return
    connection.execute(
        """
        insert into extractor_code as c (extractor, version, code_sha256, plugin) values (%s, %s, %s, %s)
        on conflict (extractor, version, code_sha256) do update set last_used_at = now(), plugin = excluded.plugin
        """,
        [label, version, code, plugin],
    )
    _recorded.add(key)


def accept(connection: psycopg.Connection[Any], label: str) -> int:
    """Forget the earlier codes of the version in use. Returns their number."""
    return connection.execute(
        """
        delete from extractor_code c using edited_extractors e
        where e.extractor = %(label)s and c.extractor = e.extractor and c.version = e.version
          and c.first_used_at < e.edited_at
        """,
        {"label": label},
    ).rowcount
