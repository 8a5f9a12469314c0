"""A complete plugin: the portal of an imaginary vendor, and what a town wants done around its archive.

Every hook is here once. A real plugin has those it needs.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import click

from clerk import DocumentRef, Fetcher, config, hookimpl
from clerk.documents.storage import SiteStorage


class ExamplePortal(Fetcher):
    """`GET {portal}/meetings.json` answers [{"id", "board", "day", "minutes", "agenda", "edition"}, …]."""

    extra_help: ClassVar[Mapping[str, str]] = {"portal": "the portal's address", "boards": "only these boards"}
    required = ("portal",)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        portal = str(self.site.extra["portal"]).rstrip("/")
        wanted = self.site.extra["boards"]
        for meeting in await self.client.get_json(f"{portal}/meetings.json"):
            if wanted and meeting["board"] not in wanted:
                continue
            try:
                day = date.fromisoformat(meeting["day"])
            except ValueError:
                self.skip(f"meeting {meeting['id']} is on {meeting['day']!r}, which is not a day")
                continue
            for kind in ("minutes", "agenda"):
                if path := meeting.get(kind):
                    # The id stays when the file is replaced, and the edition changes: clerk then knows a revision.
                    key = f"example {meeting['id']} {kind}"
                    yield DocumentRef(
                        f"{portal}{path}", meeting["board"], day, kind, key, str(meeting.get("edition", ""))
                    )


class CapitalsExtractor:
    """Takes words in capitals for people. Good enough for an example."""

    version = "1"

    def extract(self, pages: Sequence[tuple[int, str]]) -> Mapping[int, Mapping[str, Any]]:
        return {number: {"persons": self._people(text)} for number, text in pages}

    def _people(self, text: str) -> list[dict[str, Any]]:
        return [{"text": word.title(), "confidence": 0.1} for word in text.split() if word.isupper() and len(word) > 3]


@hookimpl
def fetcher_class(label: str) -> type[Fetcher] | None:
    return ExamplePortal if label == "example" else None


@hookimpl
def fetcher_extra(label: str) -> Mapping[str, Any] | None:
    """So that `extra` need not name the boards."""
    return {"boards": []} if label == "example" else None


@hookimpl
def extractor(label: str) -> Any:
    return CapitalsExtractor() if label == "example" else None


def _wall(subdomain: str) -> Path:
    """Where this plugin keeps what it does: a folder beside the sites' own."""
    return config.load().storage_dir / "_example" / subdomain


@hookimpl
def post_create(subdomain: str) -> None:
    _wall(subdomain).mkdir(parents=True, exist_ok=True)


@hookimpl
def pre_compilation(subdomain: str, run_id: int) -> None:
    _wall(subdomain).mkdir(parents=True, exist_ok=True)


@hookimpl
def post_compilation(subdomain: str, database_path: Path, run_id: int) -> None:
    """A note about the new archive. It is only read here: what is published is what clerk built."""
    database = sqlite3.connect(f"file:{database_path}?mode=ro", uri=True)
    try:
        count = "select (select count(*) from minutes) + (select count(*) from agendas)"
        (pages,) = database.execute(count).fetchone()
    finally:
        database.close()
    (_wall(subdomain) / "pages.txt").write_text(f"{pages} pages after run {run_id}\n")


@hookimpl
def deploy_municipality(subdomain: str) -> str:
    """Publish by copying. Written so that doing it twice is the same as doing it once."""
    _wall(subdomain).mkdir(parents=True, exist_ok=True)
    database = SiteStorage(config.load().storage_dir, subdomain).database
    shutil.copyfile(database, _wall(subdomain) / ".meetings.db.part")
    (_wall(subdomain) / ".meetings.db.part").replace(_wall(subdomain) / "meetings.db")
    return str(_wall(subdomain) / "meetings.db")


@hookimpl
def upload_static_file(file_path: Path, storage_path: str) -> None:
    target = config.load().storage_dir / "_example" / "static" / storage_path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file_path, target)


@hookimpl
def post_deploy(site: Mapping[str, Any]) -> None:
    (_wall(site["subdomain"]) / "announced.txt").write_text(f"{site['name']} has a new archive\n")


@hookimpl
def register_cli_commands() -> list[click.Command]:
    @click.command("example-wall")
    @click.argument("site")
    def example_wall(site: str) -> None:
        """Show what the example plugin wrote about a SITE."""
        for file in sorted(_wall(site).glob("*.txt")):
            click.echo(f"{file.name}: {file.read_text().strip()}")

    return [example_wall]
