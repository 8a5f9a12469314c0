"""The public API of plugins: what it has, its version, and the plugin that `clerk plugins new` writes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import clerk
from clerk.plugins import manager
from tests.cli.conftest import Clerk, clerk_command  # noqa: F401 (fixture)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "plugin-author.md"
PUBLIC = [
    "API_VERSION",
    "Cell",
    "DocumentRef",
    "FetchResult",
    "Fetcher",
    "HttpResponse",
    "Link",
    "LinkPage",
    "OcrEngine",
    "OcrResult",
    "Row",
    "RowLink",
    "RowPage",
    "Sink",
    "Site",
    "SourceUnreadable",
    "TrackedDocument",
    "Validators",
    "Word",
    "check_since",
    "find_date",
    "find_kind",
    "hookimpl",
]
"""A change of this list, or of the next two, is a change of the API: see `clerk.API_VERSION`."""
FETCHER = [
    "check",
    "close",
    "covers",
    "documents",
    "download",
    "extra_help",
    "extra_types",
    "first_day",
    "host_interval",
    "parse_links",
    "parse_rows",
    "recognition",
    "required",
    "skip",
    "skip_entry",
]
DOCUMENT_REF = [
    "url",
    "meeting",
    "date",
    "kind",
    "key",
    "version",
    "name",
    "date_origin",
    "meeting_origin",
    "kind_origin",
    "modified",
    "media_type",
]


def test_the_public_api_is_the_documented_list() -> None:
    assert clerk.API_VERSION == 1
    assert clerk.__all__ == PUBLIC
    assert [name for name in PUBLIC if getattr(clerk, name) is None] == []
    assert sorted(name for name in vars(clerk.Fetcher) if not name.startswith("_")) == FETCHER
    assert [field.name for field in dataclasses.fields(clerk.DocumentRef)] == DOCUMENT_REF
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in PUBLIC if f"`{name}`" not in page] == []


def load_plugin(folder: Path, text: str) -> manager.Plugins:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(dedent(text))
    manager._load.cache_clear()
    return manager._load(folder)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1", None),
        ("2", "it needs version 2 of the plugin API; this clerk has 1: upgrade clerk"),
        ("'new'", "CLERK_API_VERSION must be a number of 1 or more, not 'new'"),
    ],
)
def test_a_plugin_for_a_newer_api_is_refused_with_one_sentence(
    tmp_path: Path, version: str, problem: str | None
) -> None:
    plugins = load_plugin(tmp_path / "plugins", f"CLERK_API_VERSION = {version}\n")
    assert [found.error for found in plugins.problems] == ([problem] if problem else [])
    assert (plugins.loaded[-1].name == "mine") is (problem is None)


def test_a_folder_without_plugins_is_pointed_out(clerk_command: Clerk, tmp_path: Path) -> None:  # noqa: F811
    project = tmp_path / "projects" / "mine"
    project.mkdir(parents=True)
    (project / "mine.py").write_text("from clerk import hookimpl\n")
    listed = clerk_command("--plugins-dir", str(project.parent), "plugins")
    assert listed.code == 0
    assert f"{project.parent} has no plugins" in listed.err
    assert f"{project} has some" in listed.err
    assert clerk_command("--plugins-dir", str(project), "plugins").err == ""


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("legistar", "a fetcher legistar of clerk"),
        ("json", "a Python module json"),
        ("clerk", "a Python module clerk"),
        ("pytest", "a Python module pytest"),
    ],
)
def test_a_generated_plugin_replaces_nothing_by_its_name(
    clerk_command: Clerk,  # noqa: F811
    tmp_path: Path,
    name: str,
    taken: str,
) -> None:
    refused = clerk_command("plugins", "new", name)
    assert (refused.code, f"there is already {taken}" in refused.err) == (2, True), refused
    assert not (tmp_path / name).exists()


def test_the_generated_plugin_is_loaded_and_its_test_passes(clerk_command: Clerk, tmp_path: Path) -> None:  # noqa: F811
    assert clerk_command("plugins", "new", "springfield-portal", "--dry-run").code == 0
    assert not (tmp_path / "springfield-portal").exists()
    written = json.loads(clerk_command("plugins", "new", "springfield-portal", "--json").out)
    folder = tmp_path / "springfield-portal"
    assert sorted(written["files"]) == sorted(
        str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()
    )
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder, capture_output=True, text=True
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "1 passed" in tested.stdout

    plugins = load_plugin(tmp_path / "plugins", (folder / "springfield_portal.py").read_text())
    assert plugins.problems == []
    assert plugins.resolve("fetcher_class", "springfield-portal", clerk.Fetcher)[1].required == ("portal",)


@pytest.mark.parametrize("name", ["Springfield", "1st", "a--b", "../up", "class", "x" * 51])
def test_a_name_that_cannot_be_a_package_is_refused(clerk_command: Clerk, name: str) -> None:  # noqa: F811
    done = clerk_command("plugins", "new", name)
    assert (done.code, "cannot be the name of a plugin" in done.err) == (2, True)


def test_a_folder_that_exists_is_left_alone(clerk_command: Clerk, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "mine").mkdir()
    assert "mine exists" in clerk_command("plugins", "new", "mine").err
    assert list((tmp_path / "mine").iterdir()) == []
