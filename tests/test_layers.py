"""The import contract in pyproject.toml names every module."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def modules() -> set[str]:
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for file in (ROOT / "clerk").rglob("*.py")
    }


def test_every_module_belongs_to_a_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = [
        module.strip()
        for line in project["tool"]["importlinter"]["contracts"][0]["layers"]
        for module in line.split("|")
    ]
    outside = {module for module in modules() if not any(f"{module}.".startswith(f"{layer}.") for layer in layers)}
    # Packages whose modules belong to different layers: they import nothing themselves.
    assert outside == {"clerk", "clerk.pipeline"}
