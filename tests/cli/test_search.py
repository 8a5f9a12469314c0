"""`clerk search`."""

from __future__ import annotations

import json
import socket
from datetime import date
from pathlib import Path

import pytest

from clerk.documents import manifest
from clerk.documents.storage import Document, SiteStorage
from clerk.errors import EXIT_UNKNOWN
from tests.archive.published import publish
from tests.cli.conftest import Clerk
from tests.cli.terminal import run_on_terminal
from tests.s3 import CREDENTIALS


@pytest.fixture(autouse=True)
def _folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(tmp_path / "published"))


def test_json_has_the_file_of_the_image(clerk_command: Clerk, tmp_path: Path) -> None:
    image = tmp_path / "storage/springfield/images/CityCouncil/2024-03-05/1.png"
    image.parent.mkdir(parents=True)
    image.write_bytes(b"PNG")
    name = "/CityCouncil/2024-03-05/1.png"
    publish(
        tmp_path / "published",
        "springfield",
        {"text": "The bike lanes", "page_image": name},
        {"text": "More bike lanes to come", "page": 2, "page_image": "/CityCouncil/2024-03-05/2.png"},
    )
    result = clerk_command("search", "bike lanes", "--json")
    assert result.code == 0
    first, second = json.loads(result.out)["hits"]
    assert (first["snippet"], first["page_image"], first["image_file"]) == ("The bike lanes", name, str(image))
    assert (second["page"], second["image_file"]) == (2, None)


def test_a_broken_archive_is_reported_and_skipped(clerk_command: Clerk, tmp_path: Path) -> None:
    publish(tmp_path / "published", "alpha", {"text": "bike"}).write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    publish(tmp_path / "published", "beta", {"text": "bike"})
    result = clerk_command("search", "bike")
    assert result.code == 0
    assert "beta" in result.out
    assert result.err.startswith("The archive of alpha cannot be searched (")


def test_matches_are_bold_and_control_characters_are_removed(tmp_path: Path) -> None:
    publish(tmp_path / "published", "springfield", {"text": "New bike \x1b[2J lanes"})
    environment = {"STORAGE_DIR": str(tmp_path / "storage"), "CLERK_PUBLISH_DIR": str(tmp_path / "published")}
    with run_on_terminal("-m", "clerk", "search", "bike", environment=environment) as terminal:
        assert terminal.wait_for_end() == 0
    assert "New \x1b[1mbike\x1b[0m" in terminal.written
    assert "\x1b[2J" not in terminal.written


def test_each_hit_names_where_its_document_is(clerk_command: Clerk, tmp_path: Path) -> None:
    """The address, or else the file in storage whose pages have the published text."""
    storage = SiteStorage(tmp_path / "storage", "springfield")
    texts = {"Council": "A new bike lane", "Board": "Bike racks"}
    files = {}
    for meeting, text in texts.items():
        document = Document(0, "springfield", "minutes", meeting, date(2024, 3, 5), revision=2)
        files[meeting] = storage.pdf(document)
        files[meeting].parent.mkdir(parents=True)
        files[meeting].write_bytes(b"%PDF-1.7")
        storage.texts(document).mkdir(parents=True)
        page = manifest.Page(1, manifest.OCR, len(text), 93.0, 1, 0, manifest.digest(text.encode()))
        manifest.save(storage.manifest(document), manifest.Manifest(None, 1, "eng", (page,)))
    url = "https://springfield.gov/board.pdf"
    publish(
        tmp_path / "published",
        "springfield",
        {"meeting": "Council", "text": texts["Council"]},
        {"meeting": "Board", "text": texts["Board"], "source_url": url},
        {"meeting": "Library", "text": "Bike repair"},
    )
    hits = {hit["meeting"]: hit for hit in json.loads(clerk_command("search", "bike", "--json").out)["hits"]}
    found = {meeting: (hit["source_url"], hit["document_file"]) for meeting, hit in hits.items()}
    assert found == {
        "Council": (None, str(files["Council"])),
        "Board": (url, str(files["Board"])),
        "Library": (None, None),
    }
    lines = clerk_command("search", "bike").out.splitlines()
    assert f"  {files['Council']}" in lines
    assert f"  {url}" in lines
    assert f"  {files['Board']}" not in lines


def test_a_storage_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, clerk_command: Clerk) -> None:
    """The remedy is not that of a job, which a worker repeats."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("CLERK_PUBLISH_DIR", f"s3://papers?endpoint=http://127.0.0.1:{port}&timeout=0.2")
    result = clerk_command("search", "bike")
    assert result.code == EXIT_UNKNOWN
    assert "Connection refused" in result.err
    assert "check the endpoint in STORAGE_DIR or CLERK_PUBLISH_DIR and the network of this machine." in result.err
    assert "jobs" not in result.err
