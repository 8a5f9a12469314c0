from __future__ import annotations

import json

import pytest

from clerk.documents import manifest
from clerk.documents.manifest import EMPTY, FAILED, OCR, Manifest, ManifestUnreadable, Page, digest, page_texts
from clerk.documents.storage import Document, SiteStorage, write


def a_page(number: int, text: str = "", method: str = OCR) -> Page:
    sha256 = None if method == FAILED else digest(text.encode())
    return Page(number, method, len(text), 91.5, 12, 0, sha256, "PdfBroken: no" if method == FAILED else None)


def test_comes_back_as_it_was_saved(storage: SiteStorage, document: Document) -> None:
    saved = Manifest("0" * 64, 2, "eng+spa", (a_page(1, "Añadir"), a_page(2, method=FAILED)), "1 of 2 pages failed")
    manifest.save(storage.manifest(document), saved)
    assert manifest.load(storage.manifest(document)) == saved
    assert saved.is_complete
    assert [page.page for page in saved.failed] == [2]


def test_has_the_form_that_others_read(storage: SiteStorage, document: Document) -> None:
    manifest.save(storage.manifest(document), Manifest("0" * 64, 1, "eng", (a_page(1, "x"),)))
    found = json.loads(storage.manifest(document).read_text())
    assert set(found) == {"version", "pdf_sha256", "page_count", "languages", "pages", "note"}
    assert set(found["pages"][0]) == {
        "page", "method", "characters", "confidence", "milliseconds", "rotation", "sha256", "error"
    }  # fmt: skip


def test_is_not_complete_with_a_gap_or_a_double() -> None:
    assert not Manifest("0" * 64, 3, "eng", (a_page(1), a_page(3))).is_complete
    assert not Manifest("0" * 64, 2, "eng", (a_page(1), a_page(1))).is_complete


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "pages": [{"page": 1}]}'])
def test_what_cannot_be_used_is_refused(storage: SiteStorage, document: Document, content: bytes) -> None:
    write(storage.manifest(document), content)
    with pytest.raises(ManifestUnreadable):
        manifest.load(storage.manifest(document))


def test_texts_come_in_order_without_failed_pages(storage: SiteStorage, document: Document) -> None:
    pages = (a_page(1, "one\n"), a_page(2, method=FAILED), a_page(3, "", EMPTY))
    write(storage.page_text(document, 1), "one\n")
    write(storage.page_text(document, 3), "")
    manifest.save(storage.manifest(document), Manifest("0" * 64, 3, "eng", pages))
    assert page_texts(storage, document) == [(1, "one\n"), (3, "")]


def test_a_document_that_was_never_read_has_no_texts(storage: SiteStorage, document: Document) -> None:
    assert page_texts(storage, document) == []


@pytest.mark.parametrize("there", [None, "two\n"])
def test_a_text_that_is_gone_or_another_is_not_passed_over(
    storage: SiteStorage, document: Document, there: str | None
) -> None:
    if there:
        write(storage.page_text(document, 1), there)
    manifest.save(storage.manifest(document), Manifest("0" * 64, 1, "eng", (a_page(1, "one\n"),)))
    with pytest.raises(ManifestUnreadable):
        page_texts(storage, document)
