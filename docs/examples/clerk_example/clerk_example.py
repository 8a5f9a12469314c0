"""Example plugin that implements every hook: a fetcher, an OCR engine, an extractor, a deployer, a command."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import click

from clerk import DocumentRef, Fetcher, OcrEngine, OcrResult, hookimpl


class ExamplePortal(Fetcher):
    """`GET {portal}/meetings.json` returns [{"id", "board", "day", "minutes", "agenda", "edition"}, …]."""

    extra_help: ClassVar[Mapping[str, str]] = {"portal": "URL of the portal", "boards": "boards to fetch; default: all"}
    required = ("portal",)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        portal = str(self.site.extra["portal"]).rstrip("/")
        boards = self.site.extra["boards"]
        for meeting in await self.client.get_json(f"{portal}/meetings.json"):
            if boards and meeting["board"] not in boards:
                continue
            try:
                day = date.fromisoformat(meeting["day"])
            except ValueError:
                self.skip(f"meeting {meeting['id']} has no valid date ({meeting['day']!r})")
                continue
            for kind in ("minutes", "agenda"):
                if path := meeting.get(kind):
                    # When the file is replaced, the id stays and the edition changes: clerk recognises a revision.
                    key = f"example {meeting['id']} {kind}"
                    edition = str(meeting.get("edition", ""))
                    yield DocumentRef(f"{portal}{path}", meeting["board"], day, kind, key, edition)


class CommandEngine(OcrEngine):
    """Runs the program tesseract on each page's image. Word boxes would be the result's `lines`."""

    def recognize(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> OcrResult:
        output = self.tools.scratch / "recognized.txt"
        self.tools.run("tesseract", image, "-", "-l", languages, cpu_seconds=cpu_seconds, stdout=output)
        text = output.read_text(encoding="utf-8")
        letters = sum(character.isalnum() for character in text)
        return OcrResult(text, 80.0 if letters else None, letters)


class CapitalsExtractor:
    """Takes every word in capitals for a person."""

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
    """Default: all boards."""
    return {"boards": []} if label == "example" else None


@hookimpl
def ocr_engines() -> Mapping[str, type[OcrEngine]]:
    return {"example": CommandEngine}


@hookimpl
def extractor(label: str) -> Any:
    return CapitalsExtractor() if label == "example" else None


def _root() -> Path:
    return Path(os.environ.get("CLERK_EXAMPLE_FOLDER", "example-output"))


def _folder(subdomain: str) -> Path:
    """This plugin's output folder for a site."""
    return _root() / subdomain


@hookimpl
def post_create(subdomain: str) -> None:
    _folder(subdomain).mkdir(parents=True, exist_ok=True)


@hookimpl
def pre_compilation(subdomain: str, run_id: int) -> None:
    _folder(subdomain).mkdir(parents=True, exist_ok=True)


@hookimpl
def post_compilation(subdomain: str, database_path: Path, run_id: int) -> None:
    """Writes the number of pages of the new archive to a file."""
    database = sqlite3.connect(f"file:{database_path}?mode=ro", uri=True)
    try:
        count = "select (select count(*) from minutes) + (select count(*) from agendas)"
        (pages,) = database.execute(count).fetchone()
    finally:
        database.close()
    (_folder(subdomain) / "pages.txt").write_text(f"{pages} pages after run {run_id}\n")


@hookimpl
def deploy_municipality(subdomain: str, database_path: Path) -> str:
    """Publishes by copying; idempotent."""
    _folder(subdomain).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(database_path, _folder(subdomain) / ".meetings.db.part")
    (_folder(subdomain) / ".meetings.db.part").replace(_folder(subdomain) / "meetings.db")
    return str(_folder(subdomain) / "meetings.db")


@hookimpl
def upload_static_file(file_path: Path, storage_path: str) -> None:
    target = _root() / "static" / storage_path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file_path, target)


@hookimpl
def post_deploy(site: Mapping[str, Any]) -> None:
    (_folder(site["subdomain"]) / "announced.txt").write_text(f"{site['name']} has a new archive\n")


@hookimpl
def register_cli_commands() -> list[click.Command]:
    @click.command("example-files")
    @click.argument("site")
    def example_files(site: str) -> None:
        """Show the files that the example plugin wrote for SITE."""
        for file in sorted(_folder(site).glob("*.txt")):
            click.echo(f"{file.name}: {file.read_text().strip()}")

    return [example_files]
