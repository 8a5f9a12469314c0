"""Checks of a site's documents: the ledger compared with page texts, PDF and extraction results in storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clerk.documents import integrity
from clerk.documents.integrity import PdfStatus, TextsStatus
from clerk.documents.storage import Document, quarantine
from clerk.errors import FilesLost, WorkerLost
from clerk.object_storage.path import StoragePath
from clerk.ocr.tesseract import DEFAULT_LANGUAGES
from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck

_OPEN_STATUSES = ("pending", "in_progress", "failed_retryable")
_DAMAGED_SUFFIX = "damaged"
_ROWS = """
select i.id, i.subdomain, i.kind, i.meeting, i.date, i.occurrence, i.revision, i.sha256, i.source_url,
       i.fetch_error_code, i.fetch_error_message, coalesce(substring(i.storage_key from '[.](html|docx)$'), 'pdf'),
       i.size_bytes, i.source_key is not null and i.removed_at_source is null, i.pdf_missing_since is not null,
       r.status, r.error_code, r.run_id is not distinct from s.run_id, j.status::text,
       coalesce(x.status = 'processed', false),
       case when p.force_ocr then p.run_id end
from content_items i
join sites s on s.subdomain = i.subdomain
left join content_item_pipeline_state r on r.content_item_id = i.id and r.pipeline = 'ocr'
left join content_item_pipeline_state x on x.content_item_id = i.id and x.pipeline = 'extraction'
left join procrastinate_jobs j on j.id = r.job_id
left join pipeline_runs p on p.run_id = r.run_id
where i.subdomain = %s and i.kind <> 'archive' and i.superseded_at is null
order by i.id
"""
_REQUEST_PDF = "update content_items set pdf_missing_since = coalesce(pdf_missing_since, clerk_now()) where id = %s"
_LOCK_SITE = "select clerk_run_is_active(s.run_id) from sites s where s.subdomain = %s for no key update"


@dataclass(frozen=True)
class Row:
    document: Document
    size_bytes: int | None
    is_listed: bool
    """The source listed it at the last fetch."""
    pdf_missing: bool
    status: str | None
    error_code: str | None
    in_current_run: bool
    job_status: str | None
    is_extracted: bool
    forced_by_run: int | None
    """The run of the unit, if it processes every page again by OCR."""

    @property
    def is_waiting(self) -> bool:
        """Open, and not running. A unit whose last attempt failed is left to its retry."""
        retried = self.status == "failed_retryable" and self.job_status == "todo" and self.error_code != WorkerLost.code
        is_open = self.status in _OPEN_STATUSES and self.in_current_run
        return is_open and self.job_status in (None, "todo") and not retried

    @property
    def name(self) -> str:
        return f"{self.document.kind} of {self.document.meeting} {self.document.stem}"


@dataclass(frozen=True)
class PdfObservation:
    """The state of a PDF on which a repair is based. If it is the same later, no process is writing the file."""

    pdf: PdfStatus
    stamp: tuple[int, int] | None
    """Size and modification time; None if it is missing."""

    @classmethod
    def of(cls, check: SiteCheck, row: Row) -> PdfObservation:
        path = check.storage.pdf(row.document)
        stamp = _stamp(path)
        return cls(integrity.pdf_status(path, row.document.sha256, row.size_bytes, full=True), stamp)

    def holds(self, connection: Connection, check: SiteCheck, row: Row) -> bool:
        """Whether it is unchanged and no run is active. Locks the site, so that none starts in this transaction."""
        if PdfObservation.of(check, row) != self:
            return False
        site_row = connection.execute(_LOCK_SITE, [check.site.subdomain]).fetchone()
        return site_row is not None and not site_row[0] and _stamp(check.storage.pdf(row.document)) == self.stamp


def _stamp(path: StoragePath) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def find(connection: Connection, check: SiteCheck) -> list[Repair]:
    """Find the documents whose ledger and files disagree. Skips superseded revisions, which are neither processed nor
    shown."""
    rows = (
        Row(Document(*columns[:12]), *columns[12:])
        for columns in connection.execute(_ROWS, [check.site.subdomain]).fetchall()
    )
    return [repair for row in rows for repair in _find(check, row)]


def _find(check: SiteCheck, row: Row) -> Iterator[Repair]:
    texts = integrity.texts_status(check.storage, row.document, check.full)
    images = _missing_images(check, row, texts)
    if row.status == "processed":
        if not check.site.is_active:
            yield from _find_lost(check, row, texts, images)
    elif row.status is None or row.error_code == FilesLost.code:
        if not images and (texts.are_intact if row.error_code == FilesLost.code else texts.are_complete):
            yield _texts_complete(check, row, texts)
        elif row.error_code == FilesLost.code and row.pdf_missing and not check.site.is_active:
            observed = PdfObservation.of(check, row)
            if observed.pdf is PdfStatus.INTACT:
                yield _texts_lost(check, row, "its PDF is available again", 2, observed)
    elif row.is_waiting and not images and texts.are_complete and _is_up_to_date(check, row, texts):
        yield _texts_complete(check, row, texts)


def _find_lost(check: SiteCheck, row: Row, texts: TextsStatus, images: int) -> Iterator[Repair]:
    if texts.problem is not None:
        match observed := PdfObservation.of(check, row):
            case PdfObservation(pdf=PdfStatus.INTACT):
                yield _texts_lost(check, row, texts.problem, 2, observed)
            case PdfObservation(pdf=pdf) if check.site.scraper and row.is_listed:
                yield _texts_lost(check, row, f"{texts.problem}, and its PDF is {pdf}", 1, observed)
            case PdfObservation(pdf=pdf):
                problem = f"{texts.problem}, its PDF is {pdf}, and the source no longer lists it"
                yield _texts_lost(check, row, problem, None, observed)
        return
    if images and (observed := PdfObservation.of(check, row)).pdf is PdfStatus.INTACT:
        yield _texts_lost(check, row, f"{images} page images are missing", 2, observed)
        return
    path = check.storage.pdf(row.document)
    if integrity.pdf_status(path, row.document.sha256, row.size_bytes, check.full) is PdfStatus.DAMAGED:
        observed = PdfObservation.of(check, row)
        if observed.pdf is PdfStatus.DAMAGED:
            yield _damaged_pdf(check, row, observed)
    if row.is_extracted and not check.storage.extracted(row.document).is_file():
        yield _extraction_lost(check, row)


def _missing_images(check: SiteCheck, row: Row, texts: TextsStatus) -> int:
    """How many page images are missing; 0 if there is no PDF to render them from."""
    if texts.manifest is None or not check.storage.pdf(row.document).is_file():
        return 0
    policy = check.settings.keep_images
    return len(integrity.missing_images(check.storage, row.document, texts.manifest.pages, policy))


def _is_up_to_date(check: SiteCheck, row: Row, texts: TextsStatus) -> bool:
    """False: the document should be processed again, since the site's languages changed or its run forces OCR."""
    languages = check.site.extra_values.get("languages", DEFAULT_LANGUAGES)
    manifest = texts.manifest
    return (
        manifest is not None and manifest.languages == languages and row.forced_by_run in (None, manifest.forced_by_run)
    )


def _texts_complete(check: SiteCheck, row: Row, texts: TextsStatus) -> Repair:
    assert texts.manifest is not None
    pages = texts.manifest.page_count
    return _repair(
        check,
        row,
        kind="texts-complete",
        stage="ocr",
        found=f"{row.name}: all {pages} pages are in storage, the ledger says {row.status or 'nothing'}",
        action="mark it as processed",
        why="OCR is not repeated for complete texts",
        apply=lambda connection: engine.mark_processed(connection, row.document.id, pages),
        immediate=row.status not in _OPEN_STATUSES,
    )


def _texts_lost(check: SiteCheck, row: Row, problem: str, phase: int | None, observed: PdfObservation) -> Repair:
    """`phase`: with which the repairing run begins; None if the document cannot be recovered."""
    if phase is not None:
        check.require_run(phase)

    def mark_lost(connection: Connection) -> bool:
        texts = integrity.texts_status(check.storage, row.document, check.full)
        recovered = texts.are_intact and not _missing_images(check, row, texts)
        if recovered or not observed.holds(connection, check, row):
            return False
        if not engine.mark_files_lost(connection, row.document.id, "ocr", problem, pdf_missing=phase != 2):
            return False
        if phase is not None:
            check.reasons.append("texts")
        if observed.pdf is PdfStatus.DAMAGED:
            quarantine(check.storage.pdf(row.document), _DAMAGED_SUFFIX)
        return True

    return _repair(
        check,
        row,
        kind="texts-lost",
        stage="ocr",
        found=f"{row.name}: {problem}",
        action={1: "fetch and process it again", 2: "process it again", None: "mark it as failed"}[phase],
        why="the archive keeps its pages" if phase is None else "the ledger says that it is processed",
        apply=mark_lost,
    )


def _damaged_pdf(check: SiteCheck, row: Row, observed: PdfObservation) -> Repair:
    is_available = bool(check.site.scraper) and row.is_listed
    if is_available:
        check.require_run(1)

    def request_pdf(connection: Connection) -> bool:
        if not observed.holds(connection, check, row):
            return False
        connection.execute(_REQUEST_PDF, [row.document.id])
        if is_available:
            check.reasons.append("PDFs")
        # Kept for diagnosis.
        quarantine(check.storage.pdf(row.document), _DAMAGED_SUFFIX)
        return True

    return _repair(
        check,
        row,
        kind="pdf-damaged",
        stage="fetch",
        found=f"{row.name}: its PDF differs from the fetched one",
        action=f"rename it to .damaged{' and fetch it again' if is_available else '; the source no longer lists it'}",
        why="its texts are intact, so OCR is not repeated",
        apply=request_pdf,
    )


def _extraction_lost(check: SiteCheck, row: Row) -> Repair:
    check.require_run(3)

    def mark_lost(connection: Connection) -> bool:
        marked = engine.mark_files_lost(connection, row.document.id, "extraction", "extracted.json is missing")
        if marked:
            check.reasons.append("people and votes")
        return marked

    return _repair(
        check,
        row,
        kind="extraction-lost",
        stage="extraction",
        found=f"{row.name}: its people and votes are missing",
        action="extract them again",
        why="the ledger says that they were extracted",
        apply=mark_lost,
    )


def _repair(
    check: SiteCheck,
    row: Row,
    *,
    kind: str,
    stage: str,
    found: str,
    action: str,
    why: str,
    apply: Callable[[Connection], bool],
    immediate: bool = True,
) -> Repair:
    return Repair(
        kind=kind,
        subdomain=check.site.subdomain,
        run_id=check.site.run_id,
        stage=stage,
        found=found,
        action=action,
        why=why,
        apply=apply,
        content_item_id=row.document.id,
        immediate=immediate,
    )
