"""Files outside `clerk/` that clerk reads while it runs: those of `docs/` and `sql/`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def data_path(path: str) -> Path:
    """`docs/README.md` → that file of the checkout, or its copy inside an installed package."""
    package = Path(str(resources.files("clerk")))
    is_installed = (package / f"_{path.partition('/')[0]}").is_dir()
    return package / f"_{path}" if is_installed else package.parent / path
