from __future__ import annotations

import json

import pytest

from clerk.documents import manifest
from clerk.documents.manifest import EMPTY, FAILED, OCR, Manifest, ManifestUnreadable, Page, digest, page_texts
from clerk.documents.storage import Document, SiteStorage, write
from tests.s3 import BOTH

STORAGES = BOTH


def make_page(number: int, text: str = "", method: str = OCR) -> Page:
    sha256 = None if method == FAILED else digest(text.encode())
    return Page(number, method, len(text), 91.5, 12, 0, sha256, "PdfBroken: no" if method == FAILED else None)


def test_a_saved_manifest_is_loaded_unchanged(storage: SiteStorage, document: Document) -> None:
    saved = Manifest(
        "0" * 64, 2, "eng+spa", (make_page(1, "Añadir"), make_page(2, method=FAILED)), "1 of 2 pages failed"
    )
    manifest.save(storage.manifest(document), saved)
    assert manifest.load(storage.manifest(document)) == saved
    assert saved.is_complete
    assert [page.page for page in saved.failed] == [2]


def test_keys_of_the_manifest_file(storage: SiteStorage, document: Document) -> None:
    manifest.save(storage.manifest(document), Manifest("0" * 64, 1, "eng", (make_page(1, "x"),)))
    content = json.loads(storage.manifest(document).read_text())
    assert set(content) == {"version", "pdf_sha256", "page_count", "languages", "pages", "note", "forced_by_run"}
    assert set(content["pages"][0]) == {
        "page", "method", "characters", "confidence", "milliseconds", "rotation", "sha256", "error", "reason"
    }  # fmt: skip


def test_a_manifest_with_a_gap_or_a_duplicate_is_not_complete() -> None:
    assert not Manifest("0" * 64, 3, "eng", (make_page(1), make_page(3))).is_complete
    assert not Manifest("0" * 64, 2, "eng", (make_page(1), make_page(1))).is_complete


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "pages": [{"page": 1}]}'])
def test_an_invalid_manifest_is_rejected(storage: SiteStorage, document: Document, content: bytes) -> None:
    write(storage.manifest(document), content)
    with pytest.raises(ManifestUnreadable):
        manifest.load(storage.manifest(document))


def test_texts_are_in_order_and_without_failed_pages(storage: SiteStorage, document: Document) -> None:
    pages = (make_page(1, "one\n"), make_page(2, method=FAILED), make_page(3, "", EMPTY))
    write(storage.page_text(document, 1), "one\n")
    write(storage.page_text(document, 3), "")
    manifest.save(storage.manifest(document), Manifest("0" * 64, 3, "eng", pages))
    assert page_texts(storage, document) == [(1, "one\n"), (3, "")]


def test_a_document_without_manifest_has_no_texts(storage: SiteStorage, document: Document) -> None:
    assert page_texts(storage, document) == []


@pytest.mark.parametrize("content", [None, "two\n"])
def test_a_missing_or_changed_text_is_rejected(storage: SiteStorage, document: Document, content: str | None) -> None:
    if content:
        write(storage.page_text(document, 1), content)
    manifest.save(storage.manifest(document), Manifest("0" * 64, 1, "eng", (make_page(1, "one\n"),)))
    with pytest.raises(ManifestUnreadable):
        page_texts(storage, document)
