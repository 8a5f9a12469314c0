"""Matches of a search are highlighted on the image of a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.documents import word_boxes
from clerk.documents.storage import Document, SiteStorage, write
from clerk.documents.word_boxes import SCALE, Word, WordBoxes
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from clerk.web.matches import find_matches
from tests.archive.helpers import write_texts
from tests.ocr import pdfs
from tests.web.test_document import PNG, add_document, document_url, fetch

Connection = psycopg.Connection[Any]
LINE = [
    Word(text, 1000 * number, 2000, 1000 * number + 900, 2100) for number, text in enumerate(("New", "bike", "lanes"))
]


@pytest.fixture
def storage(tmp_path: Path) -> SiteStorage:
    return SiteStorage(tmp_path / "storage", "town")


@pytest.fixture
def client(pool: ReadOnlyPool, storage: SiteStorage) -> TestClient:
    return TestClient(create_app(pool, storage_dir=storage.root), base_url="http://localhost")


@pytest.fixture
def document(connection: Connection) -> Document:
    return add_document(connection, page_count=1, sha256="ab" * 32, size_bytes=1)


def boxes_in(client: TestClient, document: Document, search_text: str, page: int = 1) -> list[tuple[int, ...]]:
    response = client.get(document_url(document, f"/pages/{page}.svg"), params={"q": search_text})
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("image/svg+xml")
    assert f'viewBox="0 0 {SCALE} {SCALE}"' in response.text
    rectangles = re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"/>', response.text)
    return [tuple(map(int, values)) for values in rectangles]


def write_words(storage: SiteStorage, document: Document, boxes: WordBoxes) -> None:
    write(storage.word_boxes(document, 1), word_boxes.compress(word_boxes.dumps(boxes)))


def test_stored_boxes_are_drawn_over_the_image(client: TestClient, storage: SiteStorage, document: Document) -> None:
    write_texts(storage, document, ["New bike lanes"])
    write(storage.page_image(document, 1), PNG)
    write_words(storage, document, WordBoxes([LINE], rotation=90))
    page = fetch(client, document, "?page=1&q=bike")
    assert f'<img class="matches" src="{document_url(document, "/pages/1.svg?q=bike")}" alt="">' in page
    assert boxes_in(client, document, "bike") == [(1000, 2000, 900, 100)]
    assert 'class="matches"' not in fetch(client, document, "?page=1&q=tram"), "nothing to highlight"


def test_boxes_are_moved_if_the_image_is_rendered_from_the_pdf(
    client: TestClient, storage: SiteStorage, document: Document
) -> None:
    """The rendered image is not rotated, unlike the one that the boxes were made for."""
    write_texts(storage, document, ["New bike lanes"])
    write_words(storage, document, WordBoxes([LINE], rotation=90))
    assert boxes_in(client, document, "bike") == [(2000, SCALE - 1900, 100, 900)]


def test_boxes_of_a_text_layer_come_from_the_pdf(client: TestClient, storage: SiteStorage, document: Document) -> None:
    write_texts(storage, document, ["\n".join(pdfs.MINUTES)])
    write(storage.pdf(document), pdfs.digital(1))
    boxes = boxes_in(client, document, '"Miller Creek"')
    assert len(boxes) == 2
    (left, top, width, height), (next_left, next_top, _, _) = boxes
    # Line 7 of the page: 12 points high, 16.8 apart, the first at 720 of 792 points from the bottom.
    assert top / SCALE * 792 == pytest.approx(792 - 720 + 6 * 16.8 - 9, abs=3)
    assert next_top == top
    assert next_left > left + width
    assert height / SCALE * 792 == pytest.approx(11, abs=2)


@pytest.mark.parametrize("damage", [b"", b"not gzip", word_boxes.compress("clerk-words 9 0\n")])
def test_damaged_boxes_and_files_that_are_gone(
    client: TestClient, storage: SiteStorage, document: Document, damage: bytes
) -> None:
    assert boxes_in(client, document, "bike") == []
    write_texts(storage, document, ["New bike lanes"])
    write(storage.page_image(document, 1), PNG)
    write(storage.word_boxes(document, 1), damage)
    assert boxes_in(client, document, "bike") == []
    assert boxes_in(client, document, "bike", page=99) == []
    write(storage.pdf(document), b"%PDF-1.4 broken")
    assert boxes_in(client, document, "bike") == []


@pytest.mark.parametrize(
    ("search_text", "expected"),
    [
        ("bike", ["bike"]),
        ('"bike lanes"', ["bike", "lanes,"]),
        ("lan*", ["lanes,"]),
        ("LANES new", ["New", "lanes,"]),
        ("tram", []),
        ("", []),
        ("bike tram", ["bike"]),
        ("lane", ["lanes,"]),
        ('bike "', []),
    ],
)
def test_words_are_matched_as_in_the_archive(search_text: str, expected: list[str]) -> None:
    words = [Word(text, 0, 0, 1, 1) for text in ("New", "bike", "lanes,", "today")]
    assert [word.text for word in find_matches(words, search_text)] == expected


def test_both_parts_of_a_word_that_is_hyphenated_at_the_end_of_a_line_match() -> None:
    words = [Word(text, 0, 0, 1, 1) for text in ("The", "ordi-", "nance", "passed")]
    assert [word.text for word in find_matches(words, "ordinances")] == ["ordi-", "nance"]


def test_a_page_without_words() -> None:
    assert find_matches([], "bike") == []
