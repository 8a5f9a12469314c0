"""A site's documents: what the ledger says of each against the texts, the PDF and the findings that lie there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clerk.documents import integrity
from clerk.documents.integrity import PdfStatus, TextsStatus
from clerk.documents.storage import Document, quarantine
from clerk.ocr.tesseract import DEFAULT_LANGUAGES
from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck

_OPEN = ("pending", "in_progress", "failed_retryable")
_LOST = "FilesLost"
_DAMAGED = "damaged"
_ROWS = """
select i.id, i.subdomain, i.kind, i.meeting, i.date, i.occurrence, i.revision, i.sha256, i.source_url,
       i.fetch_error_code, i.fetch_error_message,
       i.size_bytes, i.source_key is not null and i.removed_at_source is null, i.pdf_missing_since is not null,
       r.status, r.error_code, r.run_id is not distinct from s.run_id, j.status::text,
       coalesce(x.status = 'processed', false)
from content_items i
join sites s on s.subdomain = i.subdomain
left join content_item_pipeline_state r on r.content_item_id = i.id and r.pipeline = 'ocr'
left join content_item_pipeline_state x on x.content_item_id = i.id and x.pipeline = 'extraction'
left join procrastinate_jobs j on j.id = r.job_id
where i.subdomain = %s and i.kind in ('minutes', 'agenda') and i.superseded_at is null
order by i.id
"""
_WANT_PDF = "update content_items set pdf_missing_since = coalesce(pdf_missing_since, clerk_now()) where id = %s"
_HOLD_SITE = "select clerk_run_is_active(s.run_id) from sites s where s.subdomain = %s for no key update"


@dataclass(frozen=True)
class Row:
    document: Document
    size_bytes: int | None
    is_listed: bool
    """The source had it when it was last asked."""
    pdf_missing: bool
    status: str | None
    error_code: str | None
    is_of_this_run: bool
    job_status: str | None
    is_extracted: bool

    @property
    def waits(self) -> bool:
        """Open, and nobody at it. One whose own last attempt failed is left to its next one."""
        retried = self.status == "failed_retryable" and self.job_status == "todo" and self.error_code != "WorkerLost"
        return self.status in _OPEN and self.is_of_this_run and self.job_status in (None, "todo") and not retried

    @property
    def name(self) -> str:
        return f"{self.document.kind} of {self.document.meeting} {self.document.stem}"


@dataclass(frozen=True)
class PdfObservation:
    """A PDF as it was seen, by its hash; something rests on it now. Seen alike twice, nobody is writing it."""

    pdf: PdfStatus
    stamp: tuple[int, int] | None
    """Size and time of change; None if it is gone."""

    @classmethod
    def of(cls, look: SiteCheck, row: Row) -> PdfObservation:
        path = look.storage.pdf(row.document)
        stamp = _stamp(path)
        return cls(integrity.pdf_status(path, row.document.sha256, row.size_bytes, full=True), stamp)

    def holds(self, connection: Connection, look: SiteCheck, row: Row) -> bool:
        """Still so, and no run is going; nor can one begin before this transaction ends."""
        if PdfObservation.of(look, row) != self:
            return False
        held = connection.execute(_HOLD_SITE, [look.site.subdomain]).fetchone()
        return held is not None and not held[0] and _stamp(look.storage.pdf(row.document)) == self.stamp


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        seen = path.stat()
    except FileNotFoundError:
        return None
    return seen.st_size, seen.st_mtime_ns


def find(connection: Connection, look: SiteCheck) -> list[Repair]:
    """Documents that a later revision took the place of are passed over: nobody reads or shows them."""
    found = connection.execute(_ROWS, [look.site.subdomain]).fetchall()
    rows = (Row(Document(*columns[:11]), *columns[11:]) for columns in found)
    return [repair for row in rows for repair in _find(look, row)]


def _find(look: SiteCheck, row: Row) -> Iterator[Repair]:
    texts = integrity.texts_status(look.storage, row.document, look.thorough)
    images = _missing_images(look, row, texts)
    if row.status == "processed":
        if not look.site.going:
            yield from _done(look, row, texts, images)
    elif row.status is None or row.error_code == _LOST:
        if not images and (texts.are_intact if row.error_code == _LOST else texts.are_complete):
            yield _read_already(look, row, texts)
        elif row.error_code == _LOST and row.pdf_missing and not look.site.going:
            sight = PdfObservation.of(look, row)
            if sight.pdf is PdfStatus.INTACT:
                yield _lost(look, row, "its PDF is back", 2, sight)
    elif row.waits and not images and texts.are_complete and _in_right_languages(look, texts):
        yield _read_already(look, row, texts)


def _done(look: SiteCheck, row: Row, texts: TextsStatus, images: int) -> Iterator[Repair]:
    if texts.problem is not None:
        match sight := PdfObservation.of(look, row):
            case PdfObservation(pdf=PdfStatus.INTACT):
                yield _lost(look, row, texts.problem, 2, sight)
            case PdfObservation(pdf=pdf) if look.site.scraper and row.is_listed:
                yield _lost(look, row, f"{texts.problem}, and its PDF is {pdf}", 1, sight)
            case PdfObservation(pdf=pdf):
                problem = f"{texts.problem}, its PDF is {pdf}, and no source has it any more"
                yield _lost(look, row, problem, None, sight)
        return
    if images and (sight := PdfObservation.of(look, row)).pdf is PdfStatus.INTACT:
        yield _lost(look, row, f"{images} images of its pages are gone", 2, sight)
        return
    path = look.storage.pdf(row.document)
    if integrity.pdf_status(path, row.document.sha256, row.size_bytes, look.thorough) is PdfStatus.DAMAGED:
        sight = PdfObservation.of(look, row)
        if sight.pdf is PdfStatus.DAMAGED:
            yield _damaged_pdf(look, row, sight)
    if row.is_extracted and not look.storage.extracted(row.document).is_file():
        yield _unextracted(look, row)


def _missing_images(look: SiteCheck, row: Row, texts: TextsStatus) -> int:
    """How many; none if there is no PDF to make them from."""
    if texts.manifest is None or not look.storage.pdf(row.document).is_file():
        return 0
    which = look.settings.keep_images
    return len(integrity.missing_images(look.storage, row.document, texts.manifest.pages, which))


def _in_right_languages(look: SiteCheck, texts: TextsStatus) -> bool:
    """Others than the site's: somebody wants it read again."""
    wanted = look.site.extra_values.get("languages", DEFAULT_LANGUAGES)
    return texts.manifest is not None and texts.manifest.languages == wanted


def _read_already(look: SiteCheck, row: Row, texts: TextsStatus) -> Repair:
    assert texts.manifest is not None
    pages = texts.manifest.page_count
    return _repair(
        look,
        row,
        kind="texts-there",
        stage="ocr",
        found=f"{row.name}: all {pages} pages are in storage, the ledger says {row.status or 'nothing'}",
        do="counted as processed",
        why="it is not to be read twice",
        apply=lambda connection: engine.mark_processed(connection, row.document.id, pages),
        immediate=row.status not in _OPEN,
    )


def _lost(look: SiteCheck, row: Row, problem: str, phase: int | None, sight: PdfObservation) -> Repair:
    """`phase`: where the run begins that heals it; None if none does."""
    if phase is not None:
        look.wants_run(phase)

    def lose(connection: Connection) -> bool:
        texts = integrity.texts_status(look.storage, row.document, look.thorough)
        back = texts.are_intact and not _missing_images(look, row, texts)
        if back or not sight.holds(connection, look, row):
            return False
        if not engine.mark_files_lost(connection, row.document.id, "ocr", problem, pdf_missing=phase != 2):
            return False
        if phase is not None:
            look.reasons.append("texts")
        if sight.pdf is PdfStatus.DAMAGED:
            quarantine(look.storage.pdf(row.document), _DAMAGED)
        return True

    return _repair(
        look,
        row,
        kind="texts-lost",
        stage="ocr",
        found=f"{row.name}: {problem}",
        do={1: "to be fetched and read again", 2: "to be read again", None: "failed: nothing is left of it"}[phase],
        why="the archive keeps what it has of it" if phase is None else "the ledger says that it was read",
        apply=lose,
    )


def _damaged_pdf(look: SiteCheck, row: Row, sight: PdfObservation) -> Repair:
    can_be_had = bool(look.site.scraper) and row.is_listed
    if can_be_had:
        look.wants_run(1)

    def want(connection: Connection) -> bool:
        if not sight.holds(connection, look, row):
            return False
        connection.execute(_WANT_PDF, [row.document.id])
        if can_be_had:
            look.reasons.append("PDFs")
        # Kept, for whoever wants to see what happened to it.
        quarantine(look.storage.pdf(row.document), _DAMAGED)
        return True

    return _repair(
        look,
        row,
        kind="pdf-damaged",
        stage="fetch",
        found=f"{row.name}: its PDF is not the one that was fetched",
        do=f"set aside as .damaged{', to be fetched again' if can_be_had else ', though no source has it any more'}",
        why="its texts are whole: it is not read again",
        apply=want,
    )


def _unextracted(look: SiteCheck, row: Row) -> Repair:
    look.wants_run(3)

    def lose(connection: Connection) -> bool:
        done = engine.mark_files_lost(connection, row.document.id, "extraction", "extracted.json is gone")
        if done:
            look.reasons.append("people and votes")
        return done

    return _repair(
        look,
        row,
        kind="findings-lost",
        stage="extraction",
        found=f"{row.name}: its people and votes are gone",
        do="to be extracted again",
        why="the ledger says that they were",
        apply=lose,
    )


def _repair(
    look: SiteCheck,
    row: Row,
    *,
    kind: str,
    stage: str,
    found: str,
    do: str,
    why: str,
    apply: Callable[[Connection], bool],
    immediate: bool = True,
) -> Repair:
    return Repair(
        kind=kind,
        subdomain=look.site.subdomain,
        run_id=look.site.run_id,
        stage=stage,
        found=found,
        do=do,
        why=why,
        apply=apply,
        content_item_id=row.document.id,
        immediate=immediate,
    )
