"""Reads a document: starts the reading child, puts each page in its place as it comes, writes the manifest at the end.

This side never looks into the PDF, only at its bytes as a whole. It trusts the child's answers no further than
their form: names of files are made here, and text is text.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clerk.documents import integrity, legacy_backup, manifest
from clerk.documents.manifest import FAILED, Manifest, Page, digest
from clerk.documents.storage import Document, SiteStorage, fsync_dir, sha256_file, write
from clerk.errors import (
    JOB_ERRORS,
    JobError,
    PdfAltered,
    PdfBroken,
    PdfEmpty,
    PdfError,
    PdfMemory,
    PdfMissing,
    PdfTimeout,
    PdfTruncated,
    ReaderCrashed,
    ReaderStalled,
    ToolMissing,
)
from clerk.ocr import protocol
from clerk.ocr.journal import Journal
from clerk.ocr.ocr_engine import environment, import_path

_LONGEST_LINE = 256 << 20
_LISTEN_SECONDS = 1.0
_STALLED_AFTER_PAGES = 10
"""Wall-clock silence, in times of the CPU seconds that a page may have."""


@dataclass(frozen=True)
class Options:
    languages: str = "eng"
    images: str = "scanned"
    dpi: float = 150.0
    memory: int = 1 << 30
    page_seconds: float = 30.0
    wasted_seconds: float = 30.0
    document_seconds: float = 40.0
    further_page_seconds: float = 10.0
    most_pages: int = 10_000
    failed_share: float = 0.1
    """Up to this share of failed pages a document counts as read, with a note."""


Report = Callable[[int, int], None]
"""Called with pages done and pages in all, after each step; raises to stop the reading."""


def process(
    storage: SiteStorage, document: Document, options: Options, report: Report, keep_going: Callable[[], None]
) -> Manifest:
    """Every page accounted for, or an exception that says why not. Pages that were read stay read either way.

    `keep_going` is called about once a second, also while a page takes its time; it too raises to stop the reading.
    """
    pdf = storage.pdf(document)
    sha256 = _fingerprint(pdf, document)
    journal = Journal(storage, document, sha256, options.languages)
    done = journal.pages(_usable_manifest(storage, document, journal))
    for number in integrity.missing_images(storage, document, done.values(), options.images):
        del done[number]
    journal.begin(done)
    with (
        _scratch(document) as scratch,
        ReaderProcess(_task(pdf, scratch, options, done), options, keep_going) as reader,
    ):
        inspected = next(reader.events)
        _raise_failure(inspected)
        count, remarks = int(inspected["page_count"]), [str(remark) for remark in inspected["remarks"]]
        if count < 1:
            raise PdfEmpty("the document has no page")
        done = {number: page for number, page in done.items() if number <= count}
        report(len(done), count)
        gone_wrong: dict[int, Page] = {}
        for event in reader.events:
            _raise_failure(event)
            if event["event"] == "done":
                break
            pages = _put_in_place(storage, document, scratch, event["pages"])
            journal.add([page for page in pages if page.has_text])
            for page in pages:
                (done if page.has_text else gone_wrong)[page.page] = page
            report(len(done) + len(gone_wrong), count)
    pages_read = done | gone_wrong
    missing = [number for number in range(1, count + 1) if number not in pages_read]
    if missing:
        raise ReaderCrashed(f"nothing was said about page {missing[0]}")
    ordered = tuple(pages_read[number] for number in range(1, count + 1))
    _judge(ordered, bool(inspected["ends_early"]), options.failed_share)
    if gone_wrong:
        remarks.insert(0, f"{len(gone_wrong)} of {count} pages failed")
    result = Manifest(sha256, count, options.languages, ordered, "; ".join(remarks) or None)
    _remove_leftovers(storage, document, result)
    manifest.save(storage.manifest(document), result)
    journal.end()
    return result


def _fingerprint(pdf: Path, document: Document) -> str:
    try:
        found = sha256_file(pdf)
    except FileNotFoundError as error:
        raise PdfMissing(f"there is no file {pdf}; `clerk retry` fetches it again") from error
    if document.sha256 is not None and document.sha256 != found:
        raise PdfAltered(f"{pdf} is not the file that was fetched; `clerk retry` fetches it again")
    return found


def _usable_manifest(storage: SiteStorage, document: Document, journal: Journal) -> Manifest | None:
    """One that says what need not be read again. Any other is removed, since its texts are about to be replaced; those
    of the older system are set aside first: by its manifest, or because nobody here has begun to read."""
    path = storage.manifest(document)
    try:
        found = manifest.load(path)
    except manifest.ManifestUnreadable:
        found = None
    if found.is_legacy if found is not None else not journal.path.exists():
        legacy_backup.back_up_files(storage, document)
    if found is None or found.is_legacy or found.pdf_sha256 != journal.head["pdf_sha256"]:
        path.unlink(missing_ok=True)
        return None
    return found


def _task(pdf: Path, scratch: Path, options: Options, done: dict[int, Page]) -> protocol.Task:
    return protocol.Task(
        pdf=str(pdf.absolute()),
        scratch=str(scratch),
        languages=options.languages,
        done=sorted(done),
        images=options.images,
        dpi=options.dpi,
        memory=options.memory,
        page_seconds=options.page_seconds,
        wasted_seconds=options.wasted_seconds,
        document_seconds=options.document_seconds,
        further_page_seconds=options.further_page_seconds,
        most_pages=options.most_pages,
    )


def _put_in_place(storage: SiteStorage, document: Document, scratch: Path, results: list[dict[str, Any]]) -> list[Page]:
    """Texts first and images with them, each by rename: the journal and the manifest name only what is there."""
    texts: dict[str, bytes] = {}
    pages = []
    for result in results:
        number = int(result["page"])
        text = str(result["text"]).encode(errors="replace")
        is_read = result["method"] != FAILED
        if is_read:
            texts[f"{number}.txt"] = text
        kept = scratch / f"{number}.png"
        if result["image"] is not None and kept.is_file():
            write(storage.page_image(document, number), kept.read_bytes())
            kept.unlink()
        page = Page(
            page=number,
            method=str(result["method"]),
            characters=len(text.decode()),
            confidence=result["confidence"],
            milliseconds=int(result["milliseconds"]),
            rotation=int(result["rotation"]),
            sha256=digest(text) if is_read else None,
            error=result["error"],
        )
        pages.append(page)
    _write_together(storage.texts(document), texts)
    return pages


def _write_together(folder: Path, files: dict[str, bytes]) -> None:
    """As storage.write does it, for many at once: the disk is waited for once, not once per file."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = {name: folder / f".{name}.{os.getpid()}.part" for name in files}
    try:
        for name, content in files.items():
            temporary[name].write_bytes(content)
        for path in temporary.values():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        for name, path in temporary.items():
            path.replace(folder / name)
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
    fsync_dir(folder)


def _judge(pages: tuple[Page, ...], ends_early: bool, failed_share: float) -> None:
    failed = [page for page in pages if page.method == FAILED]
    if len(failed) <= failed_share * len(pages):
        return
    first = str(failed[0].error)
    names = {str(page.error).partition(":")[0] for page in failed}
    kind = _reported_error(names.pop()) if len(names) == 1 else PdfBroken
    if ends_early and kind is PdfBroken:
        kind = PdfTruncated
    if len(pages) == 1:
        raise kind(first.partition(": ")[2] or first)
    raise kind(f"{len(failed)} of {len(pages)} pages failed; page {failed[0].page}: {first}")


def _remove_leftovers(storage: SiteStorage, document: Document, result: Manifest) -> None:
    """Texts and images of pages that this PDF does not have, or whose reading failed: of an older one."""
    read_pages = {page.page for page in result.pages if page.has_text}
    for folder in (storage.texts(document), storage.page_image(document, 1).parent):
        for path in folder.glob("*") if folder.is_dir() else ():
            number = re.fullmatch(r"(\d+)\.(?:txt|png)", path.name)
            if number and int(number[1]) not in read_pages:
                path.unlink()


def _raise_failure(event: dict[str, Any]) -> None:
    if event["event"] != "failed":
        return
    raise _reported_error(event["error"])(event["message"])


def _reported_error(code: str) -> type[JobError]:
    """The error that the reader process reported. The process is not trusted: any other code becomes PdfBroken."""
    error = JOB_ERRORS.get(code, PdfBroken)
    return error if issubclass(error, (PdfError, ToolMissing)) else PdfBroken


@contextlib.contextmanager
def _scratch(document: Document) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"clerk-reading-{document.id}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class ReaderProcess:
    """The reading child, in a process group of its own; whatever happens, the whole group is gone at the end."""

    def __init__(self, task: protocol.Task, options: Options, keep_going: Callable[[], None]) -> None:
        self.task = task
        self.keep_going = keep_going
        self.silence_allowed = _STALLED_AFTER_PAGES * options.page_seconds
        self.events = self._events()

    def __enter__(self) -> ReaderProcess:
        # stderr goes to a file: a pipe that nobody empties would stop the child.
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-s", "-m", protocol.CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            cwd=self.task.scratch,
            env={**environment(Path(self.task.scratch)), **import_path()},
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()
        self.stderr.close()

    def _events(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(asdict(self.task)).encode() + b"\n")
            self.process.stdin.flush()
        for line in self._lines():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ReaderCrashed("the reading process said something that is not JSON") from error
        self._explain_end()

    def _lines(self) -> Iterator[bytes]:
        assert self.process.stdout is not None
        stdout = self.process.stdout.fileno()
        pieces: list[bytes] = []
        length = 0
        heard_at = time.monotonic()
        while True:
            ready, _, _ = select.select([stdout], [], [], _LISTEN_SECONDS)
            if not ready:
                self.keep_going()
                if time.monotonic() - heard_at > self.silence_allowed:
                    raise ReaderStalled(f"the reading process said nothing for {self.silence_allowed:.0f} s")
                continue
            heard_at = time.monotonic()
            piece = os.read(stdout, 1 << 20)
            if not piece:
                return
            *complete, rest = piece.split(b"\n")
            for end in complete:
                yield b"".join([*pieces, end])
                pieces, length = [], 0
            pieces.append(rest)
            length += len(rest)
            if length > _LONGEST_LINE:
                raise ReaderCrashed("the reading process does not stop talking")

    def _explain_end(self) -> None:
        """It ended without `done` or `failed`."""
        code = self.process.wait()
        if -code == signal.SIGXCPU:
            raise PdfTimeout("reading it took more CPU time than a document may have")
        self.stderr.seek(0, os.SEEK_END)
        self.stderr.seek(max(0, self.stderr.tell() - 2000))
        said = self.stderr.read().decode(errors="replace").strip().splitlines()
        if said and "MemoryError" in said[-1]:
            raise PdfMemory("the reading process ran out of memory")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise ReaderCrashed(f"the reading process ended with {how} ({said[-1][:200] if said else 'no message'})")
