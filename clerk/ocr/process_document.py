"""Processes one document: starts the reader process, stores each page as it arrives, writes the manifest at the end.

The worker never parses the PDF; it only hashes it. It does not trust the output of the reader process: it builds all
file names itself, and accepts only known error codes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from clerk.config import DEFAULT_OCR_DPI
from clerk.documents import integrity, legacy_backup, manifest, word_boxes
from clerk.documents.manifest import FAILED, Manifest, Page, digest
from clerk.documents.storage import Document, SiteStorage, local_copy, sha256_file, write_files
from clerk.errors import (
    PdfAltered,
    PdfBroken,
    PdfMissing,
    PdfTruncated,
    ReaderOutputInvalid,
)
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath
from clerk.ocr import protocol
from clerk.ocr.document_readers import DocumentReaders
from clerk.ocr.journal import Journal
from clerk.ocr.ocr_engine import TESSEROCR, EngineReference
from clerk.ocr.protocol import PageResult
from clerk.ocr.reader_output import read_image, reported_error
from clerk.ocr.scratch import scratch_folder


@dataclass(frozen=True)
class Options:
    engine: EngineReference = TESSEROCR
    languages: str = "eng"
    images: str = "scanned"
    dpi: float = DEFAULT_OCR_DPI
    memory: int = 1 << 30
    page_seconds: float = 30.0
    failed_seconds: float = 30.0
    document_seconds: float = 40.0
    extra_page_seconds: float = 10.0
    max_pages: int = 10_000
    max_failed_share: float = 0.1
    """A document with at most this share of failed pages counts as processed, with a note."""
    forced_by_run: int | None = None
    """The run in which every page is processed again, by OCR, and text layers are ignored."""


Report = Callable[[int, int], None]
"""Called with the number of finished pages and of all pages after each step. It may raise to stop the processing."""


def process(
    storage: SiteStorage, document: Document, options: Options, report: Report, check_cancelled: Callable[[], None]
) -> Manifest:
    """Turn every page of the document into text, or raise. Finished pages are kept in both cases.

    `check_cancelled` is called about once a second, also while a page is being processed. It may raise to stop the
    processing.
    """
    storage = storage.snapshot(document)
    with contextlib.ExitStack() as stack:
        try:
            # The processes that read the PDF get a file, and no access to the storage.
            pdf = stack.enter_context(local_copy(storage.pdf(document)))
        except FileNotFoundError as error:
            raise _missing(storage.pdf(document)) from error
        return _process(storage, document, pdf, options, report, check_cancelled)


def _process(
    storage: SiteStorage,
    document: Document,
    pdf: Path,
    options: Options,
    report: Report,
    check_cancelled: Callable[[], None],
) -> Manifest:
    sha256 = _checked_sha256(pdf, storage.pdf(document), document)
    journal = Journal(storage, document, sha256, options.languages, options.forced_by_run)
    done = journal.pages(_usable_manifest(storage, document, journal))
    for number in integrity.missing_images(storage, document, done.values(), options.images):
        del done[number]
    journal.begin(done)
    failed: dict[int, Page] = {}
    with (
        scratch_folder(f"ocr-{document.id}") as scratch,
        DocumentReaders(make_task(pdf, document.media_type, options), scratch, check_cancelled) as readers,
    ):
        inspected = readers.inspect()
        count, notes = inspected.page_count, list(inspected.notes)
        done = {number: page for number, page in done.items() if number <= count}
        report(len(done), count)
        for folder, results in readers.results([number for number in range(1, count + 1) if number not in done]):
            pages = _store(storage, document, folder, results)
            for page in pages:
                (done if page.has_text else failed)[page.page] = page
            if len(done) + len(failed) < count:  # else the manifest follows
                journal.add([page for page in pages if page.has_text])
            report(len(done) + len(failed), count)
    by_number = done | failed
    ordered = tuple(by_number[number] for number in range(1, count + 1))
    _check_failed_share(ordered, inspected.is_truncated, options.max_failed_share)
    if failed:
        notes.insert(0, f"{len(failed)} of {pluralize(count, 'page')} failed")
    result = Manifest(
        sha256, count, options.languages, ordered, "; ".join(notes) or None, forced_by_run=options.forced_by_run
    )
    _delete_stale_files(storage, document, result)
    manifest.save(storage.manifest(document), result)
    journal.end()
    return result


def _checked_sha256(pdf: Path, path: StoragePath, document: Document) -> str:
    try:
        sha256 = sha256_file(pdf)
    except FileNotFoundError as error:
        raise _missing(path) from error
    if document.sha256 is not None and document.sha256 != sha256:
        raise PdfAltered(f"{path} is not the file that was fetched; `clerk retry` fetches it again")
    return sha256


def _missing(path: StoragePath) -> PdfMissing:
    return PdfMissing(f"the file {path} is missing; `clerk retry` fetches it again")


def _usable_manifest(storage: SiteStorage, document: Document, journal: Journal) -> Manifest | None:
    """The manifest of an earlier run for the same PDF, or None. If OCR is forced, it must be of the same run.

    Any other manifest is deleted, since its texts will be replaced. Texts of legacy clerk are backed up first: they
    have a manifest of legacy clerk, or neither manifest nor journal.
    """
    path = storage.manifest(document)
    try:
        existing = manifest.load(path)
    except manifest.ManifestUnreadable:
        existing = None
    if existing.is_legacy if existing is not None else not journal.path.is_file():
        legacy_backup.back_up_files(storage, document)
    if existing is None or existing.is_legacy or not journal.accepts(existing):
        path.unlink(missing_ok=True)
        return None
    return existing


def make_task(pdf: Path, media_type: str, options: Options) -> protocol.Task:
    return protocol.Task(
        pdf=str(pdf.absolute()),
        scratch="",
        engine=asdict(options.engine),
        languages=options.languages,
        images=options.images,
        dpi=options.dpi,
        memory=options.memory,
        page_seconds=options.page_seconds,
        failed_seconds=options.failed_seconds,
        document_seconds=options.document_seconds,
        extra_page_seconds=options.extra_page_seconds,
        max_pages=options.max_pages,
        force_ocr=options.forced_by_run is not None,
        media_type=media_type,
    )


def _store(storage: SiteStorage, document: Document, scratch: Path, results: list[PageResult]) -> list[Page]:
    """Store texts and images by rename. Journal and manifest are written later, so they name only existing files."""
    texts: dict[str, bytes] = {}
    images: dict[str, bytes] = {}
    pages = []
    for result in results:
        text = result.text.encode(errors="replace")
        is_read = result.method != FAILED
        if is_read:
            texts[f"{result.page}.txt"] = text
        boxes = storage.word_boxes(document, result.page)
        if result.words is None:
            boxes.unlink(missing_ok=True)
        else:
            texts[boxes.name] = _checked_word_boxes(result.words)
        if result.image is not None:
            image = scratch / f"{result.page}.png"
            images[image.name] = read_image(image)
            image.unlink()
        page = Page(
            page=result.page,
            method=result.method,
            characters=len(text.decode()),
            confidence=result.confidence,
            milliseconds=result.milliseconds,
            rotation=result.rotation,
            sha256=digest(text) if is_read else None,
            error=result.error,
            reason=result.reason,
        )
        pages.append(page)
    if images:
        write_files(storage.images(document), images)
    write_files(storage.texts(document), texts)
    return pages


def _checked_word_boxes(text: str) -> bytes:
    try:
        return word_boxes.compress(word_boxes.dumps(word_boxes.loads(text)))
    except word_boxes.WordBoxesInvalid as error:
        raise ReaderOutputInvalid(f"the OCR process returned invalid word boxes: {error}") from error


def _check_failed_share(pages: tuple[Page, ...], is_truncated: bool, max_failed_share: float) -> None:
    """Raise the error of the document if too many of its pages failed."""
    failed = [page for page in pages if page.method == FAILED]
    if len(failed) <= max_failed_share * len(pages):
        return
    first = str(failed[0].error)
    codes = {str(page.error).partition(":")[0] for page in failed}
    error_class = reported_error(codes.pop()) if len(codes) == 1 else PdfBroken
    if is_truncated and error_class is PdfBroken:
        error_class = PdfTruncated
    if len(pages) == 1:
        raise error_class(first.partition(": ")[2] or first)
    raise error_class(f"{len(failed)} of {pluralize(len(pages), 'page')} failed; page {failed[0].page}: {first}")


def _delete_stale_files(storage: SiteStorage, document: Document, result: Manifest) -> None:
    """Delete texts, word boxes and images that an earlier PDF left for pages that this one lacks or that failed."""
    pages_with_text = {page.page for page in result.pages if page.has_text}
    for folder in (storage.texts(document), storage.images(document)):
        paths: list[StoragePath] = [*folder.glob("*")] if folder.is_dir() else []
        for path in paths:
            number = re.fullmatch(r"(\d+)\.(?:txt|words\.gz|png)", path.name)
            if number and int(number[1]) not in pages_with_text:
                path.unlink()
