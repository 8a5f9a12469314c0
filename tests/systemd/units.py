"""Parses the unit files in systemd/."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "systemd"
SANDBOX = FOLDER / "clerk-.service.d" / "10-sandbox.conf"
INSTALLED = "/opt/clerk/.venv/bin"
"""The path of the commands in the units."""
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
UNITS = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".service", ".target", ".timer"))

Unit = dict[str, dict[str, list[str]]]
"""Section → key → the values given to it, in order."""


def read(*files: Path) -> Unit:
    unit: Unit = {}
    section = ""
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if heading := re.fullmatch(r"\[(\w+)\]", line):
                section = heading[1]
            elif line and not line.startswith("#"):
                key, _, value = line.partition("=")
                unit.setdefault(section, {}).setdefault(key, []).append(value)
    return unit


def service(name: str) -> Unit:
    """A service together with the common drop-in."""
    return read(FOLDER / name, SANDBOX)


def limits(queue: str) -> Unit:
    """The drop-in of a queue's worker."""
    return read(FOLDER / f"clerk-worker@{queue}.service.d" / "10-limits.conf")


def single(unit: Unit, section: str, key: str) -> str:
    values = unit[section][key]
    assert len(values) == 1, f"{key} is given {len(values)} times"
    return values[0]


def seconds(span: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|min|h)?", span).groups()  # type: ignore[union-attr]
    return int(number) * {None: 1, "s": 1, "min": 60, "h": 3600}[unit]


def instance(unit: str, of: str = "ocr") -> str:
    return unit.replace("@.", f"@{of}.")


def install(to: Path) -> Path:
    """A copy with the commands of this checkout, so that systemd finds them."""
    shutil.copytree(FOLDER, to)
    for file in to.rglob("*.service"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(INSTALLED, str(Path(sys.executable).parent)), encoding="utf-8")
    return to
