"""Checks of this machine: Python, programs, models, disks, memory, and what its kernel offers to restrict processes."""

from __future__ import annotations

import platform
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from clerk import host
from clerk.config import Settings
from clerk.doctor.finding import Finding, problem, run_check
from clerk.errors import HostOutOfMemory, HostOutOfResources
from clerk.humanize import format_bytes, join_words
from clerk.ocr import poppler, restrictions, tesseract
from clerk.ocr.engines import find_engine
from clerk.pipeline.host_watch import buckets, folders
from clerk.plugins import manager

_MIN_PYTHON = (3, 11)


def check_machine(settings: Settings) -> list[Finding]:
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("poppler", check_poppler),
        ("ocr", partial(check_engine, settings)),
        ("plugins", partial(check_plugins, settings)),
        ("memory", check_memory),
        ("open files", check_open_files),
    ]
    return [
        check_python(),
        *(run_check(name, check) for name, check in checks),
        *check_disks(settings),
        *check_buckets(settings),
        check_sandbox(),
    ]


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    shown = ".".join(map(str, version))
    if version < _MIN_PYTHON:
        return Finding("python", f"Python {shown}", "install Python 3.11 or newer, and clerk with it")
    try:
        with sqlite3.connect(":memory:") as archive:
            archive.execute("create virtual table probe using fts5 (words)")
    except sqlite3.OperationalError as error:
        what = f"Python {shown} has SQLite {sqlite3.sqlite_version} without full-text search ({error})"
        return Finding("python", what, "install a Python whose SQLite has FTS5, such as that of python.org")
    finally:
        archive.close()
    return Finding("python", f"{shown}, SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}")


def check_poppler() -> Finding:
    return Finding("poppler", f"{join_words(poppler.PROGRAMS)} {poppler.version()}")


def check_engine(settings: Settings) -> Finding:
    find_engine(settings).require_installed()
    return Finding("ocr", f"{settings.ocr_engine}{_tesseract_version()}, models in {tesseract.models()}")


def _tesseract_version() -> str:
    """The version of the program, which the engine tesserocr does not need."""
    try:
        done = subprocess.run(["tesseract", "--version"], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        return ""
    return f", {(done.stdout or done.stderr).splitlines()[0]}"


def check_languages(settings: Settings, languages: Iterable[str]) -> Finding:
    """Whether the engine knows the languages of the sites."""
    needed = sorted(languages)
    if missing := sorted(find_engine(settings).missing_languages("+".join(needed))):
        packages = " ".join(f"tesseract-ocr-{language}" for language in missing)
        what = f"sites need {join_words(missing)}, for which there is no model"
        return Finding("languages", what, f"on Debian: apt install {packages}")
    return Finding("languages", f"there are models for {join_words(needed)}")


def check_plugins(settings: Settings) -> Finding:
    plugins = manager.load(settings)
    if plugins.problems:
        first = plugins.problems[0]
        what = f"plugin {first.name} ({first.origin}) cannot be used: {first.error}"
        return Finding("plugins", what, "correct or remove it; `clerk plugins` lists all")
    own = [plugin.name for plugin in plugins.loaded if plugin.origin != "clerk itself"]
    return Finding("plugins", join_words(own) if own else "only those of clerk itself")


def check_memory() -> Finding:
    if error := host.find_problem(HostOutOfMemory, ()):
        return problem("memory", error)
    return Finding("memory", "enough is available")


def check_open_files() -> Finding:
    if error := host.find_problem(HostOutOfResources, ()):
        return problem("open files", error)
    return Finding("open files", "more can be opened")


def check_disks(settings: Settings) -> Iterator[Finding]:
    """One finding per problem, or one about all disks."""
    places = folders(settings)
    problems = [
        found
        for folder in dict.fromkeys(places)
        if (found := run_check("disk", partial(_check_folder, folder, settings))).status != "ok"
    ]
    yield from problems or [Finding("disk", host.describe_space(places))]


def _check_folder(folder: Path, settings: Settings) -> Finding:
    if error := host.disk_problem(folder, min_free=True):
        return problem("disk", error)
    is_storage = folder == (settings.storage_dir if isinstance(settings.storage_dir, Path) else settings.cache_dir)
    if is_storage and (low := host.describe_low_space(folder, settings.min_free_bytes)):
        return Finding(
            "disk",
            f"no site is fetched, because fetches leave {format_bytes(settings.min_free_bytes)} free: {folder}: {low}",
            "free disk space, set STORAGE_DIR to a larger disk, or lower CLERK_MIN_FREE_MB",
        )
    return Finding("disk", str(folder))


def check_buckets(settings: Settings) -> Iterator[Finding]:
    for bucket in buckets(settings):
        error = bucket.probe()
        url = bucket.url.with_options
        yield problem("bucket", error) if error else Finding("bucket", f"{url} can be written")


def check_sandbox() -> Finding:
    if what := restrictions.find_problem():
        return Finding("sandbox", what, restrictions.REMEDY)
    return Finding("sandbox", f"{restrictions.describe()}: they restrict processes that read documents")
