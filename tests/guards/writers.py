"""Finds the functions that write files themselves, instead of with `clerk.documents.storage`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

_METHODS = {
    *("write_text", "write_bytes", "symlink_to", "hardlink_to", "rename", "link", "symlink", "touch"),
    *("copy", "copy2", "copyfile", "copytree", "move", "mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile"),
}
_MODULES = {"copy": "shutil", "move": "shutil", "link": "os"}
"""Methods with a common name, which count only if they are of this module."""
_WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def find_writers() -> set[str]:
    """The functions, as `clerk/ocr/journal.py add`."""
    found = set()
    for path in sorted((ROOT / "clerk").rglob("*.py")):
        for function in _writers_in(ast.parse(path.read_text(encoding="utf-8"))):
            found.add(f"{path.relative_to(ROOT).as_posix()} {function}")
    return found


def _writers_in(tree: ast.AST, function: str = "(module)") -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Call) and _writes(node):
            yield function
        yield from _writers_in(node, name)


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in _MODULES:
        return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == _MODULES[name]
    if name == "replace":  # str.replace and dataclasses.replace have more arguments, or keywords
        return isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords
    if name == "open":
        flags = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
        modes = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        return bool(flags & _WRITING_FLAGS) or any(set(mode) & set("wax+") and len(mode) < 4 for mode in modes)
    return name in _METHODS
