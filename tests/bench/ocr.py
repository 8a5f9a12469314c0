"""Speed and accuracy of OCR through real jobs, compared with OCRmyPDF, tesseract alone and a naive loop.

Needs a folder of born-digital PDFs (--civic), and the network once, to install OCRmyPDF, pdf2image and pytesseract
into their own venv. Other load on the machine distorts the results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
from PIL import Image

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.documents.manifest import page_texts
from clerk.documents.storage import Document, SiteStorage
from clerk.ocr.process_document import Options
from clerk.pipeline import engine
from tests.bench.characters import error_rate, normalize
from tests.bench.ocr_report import OCRMYPDF, report
from tests.bench.ocr_rounds import compare
from tests.conftest import NO_FSYNC, running
from tests.ocr import pdfs

ROOT = Path(__file__).parents[2]
CIVIC = ROOT.parent / "shared" / "samples" / "civic"
ONE_THREAD = {**os.environ, "OMP_THREAD_LIMIT": "1"}
PAGES_PER_DOCUMENT = 6
DEFAULT_DPI = round(Options().dpi)
PARTS = ("scanned", "digital", "resumed", "large")

NAIVE = """
import sys
from pdf2image import convert_from_path
from pytesseract import image_to_string
for pdf in sys.argv[1:]:
    for image in convert_from_path(pdf):
        sys.stdout.write(image_to_string(image) + "\\x1e")
"""


# --- measuring


@dataclass(frozen=True)
class Measured:
    wall: float
    cpu: float


@contextlib.contextmanager
def measuring() -> Iterator[Callable[[], Measured]]:
    """CPU time covers child processes that start and end inside the block."""
    started, before = time.monotonic(), _children_cpu_seconds()
    result: list[Measured] = []
    yield lambda: result[0]
    result.append(Measured(time.monotonic() - started, _children_cpu_seconds() - before))


def _children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- input


def text_of(pdf: Path, page: int) -> str:
    command = ["pdftotext", "-f", str(page), "-l", str(page), str(pdf), "-"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")


def select_pages(folder: Path, count: int) -> list[tuple[Path, int, str]]:
    """Born-digital pages with enough text, spread over all documents."""
    by_document: list[list[tuple[Path, int, str]]] = []
    for pdf in sorted(folder.glob("*.pdf")):
        info = subprocess.run(["pdfinfo", str(pdf)], capture_output=True, check=True).stdout.decode(errors="replace")
        pages = next(int(line.split()[1]) for line in info.splitlines() if line.startswith("Pages:"))
        usable = []
        for page in range(1, pages + 1):
            text = text_of(pdf, page)
            if len(normalize(text)) > 700:
                usable.append((pdf, page, text))
        by_document.append(usable)
    selected: list[tuple[Path, int, str]] = []
    while len(selected) < count and any(by_document):
        selected += [usable.pop(0) for usable in by_document if usable][: count - len(selected)]
    return selected


def rasterise(pages: Sequence[tuple[Path, int, str]], folder: Path) -> list[Path]:
    """Image-only PDFs of a few pages each, at 200, 250 and 300 dpi in turn."""
    files = []
    for start in range(0, len(pages), PAGES_PER_DOCUMENT):
        dpi = (200, 250, 300)[start // PAGES_PER_DOCUMENT % 3]
        images = []
        for pdf, page, _ in pages[start : start + PAGES_PER_DOCUMENT]:
            base = folder / "page"
            command = ["pdftoppm", "-gray", "-r", str(dpi), "-f", str(page), "-l", str(page), "-singlefile"]
            subprocess.run([*command, str(pdf), str(base)], check=True, capture_output=True)
            images.append(Image.open(base.with_suffix(".pgm")).copy())
        files.append(folder / f"{start // PAGES_PER_DOCUMENT:02}.pdf")
        files[-1].write_bytes(pdfs.scanned(images, dpi))
    return files


# --- clerk


class Clerk:
    """A database, a storage and workers."""

    def __init__(self, url: str, connection: psycopg.Connection[Any], folder: Path) -> None:
        self.url = url
        self.connection = connection
        self.root = folder
        self.peak = 0

    def site(self, subdomain: str, files: Sequence[Path]) -> list[Document]:
        self.connection.execute("insert into sites (subdomain, name) values (%s, %s)", [subdomain, subdomain])
        self.connection.execute("insert into content_items (subdomain, kind) values (%s, 'archive')", [subdomain])
        storage, documents = SiteStorage(self.root, subdomain), []
        for number, file in enumerate(files):
            day = date(2024, 1, 1) + timedelta(days=number)
            row = self.connection.execute(
                "insert into content_items (subdomain, kind, meeting, date) values (%s, 'minutes', 'Council', %s)"
                " returning id",
                [subdomain, day],
            ).fetchone()
            assert row is not None
            documents.append(Document(row[0], subdomain, "minutes", "Council", day))
            path = storage.pdf(documents[-1])
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, path)
        ids = [document.id for document in documents]
        engine.start_run(self.connection, subdomain, first_phase=2, units=ids)
        return documents

    def worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "procrastinate", "--app=clerk.app.app", "worker", "--queues=ocr", "--one-shot"]
        environment = {**os.environ, "DATABASE_URL": self.url, "STORAGE_DIR": str(self.root), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def work(self, workers: int) -> None:
        running = [self.worker() for _ in range(workers)]
        stop = threading.Event()
        watch = threading.Thread(target=self._watch, args=(running[0].pid, stop))
        watch.start()
        for worker in running:
            worker.wait()
        stop.set()
        watch.join()

    def _watch(self, pid: int, stop: threading.Event) -> None:
        while not stop.wait(0.2):
            with contextlib.suppress(psutil.Error):
                worker = psutil.Process(pid)
                tree = [worker, *worker.children(recursive=True)]
                # The proportional set size: processes that were forked share most of their memory.
                self.peak = max(self.peak, sum(process.memory_full_info().pss for process in tree))

    def seconds(self, subdomain: str) -> float:
        """From the first claim to the last result, by the ledger; excludes the start of the workers."""
        row = self.connection.execute(
            """
            select extract(epoch from max(l.processed_at) - min(c.claimed_at)),
                   count(*) filter (where l.status <> 'processed')
            from content_item_pipeline_state l
            join content_items i on i.id = l.content_item_id
            left join job_claims c on c.job_id = l.job_id
            where i.subdomain = %s and l.pipeline = 'ocr'
            """,
            [subdomain],
        ).fetchone()
        assert row is not None
        assert row[1] == 0, f"{row[1]} documents were not processed"
        return float(row[0])

    def texts(self, documents: Sequence[Document]) -> list[str]:
        storage = SiteStorage(self.root, documents[0].subdomain)
        return [text for document in documents for _, text in page_texts(storage, document)]


# --- the others


def run_in_parallel(commands: Sequence[Sequence[str]], environment: dict[str, str]) -> list[str]:
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for command in commands]
    return [process.communicate()[0].decode(errors="replace") for process in running]


def other_tools_venv() -> Path:
    folder = Path(tempfile.gettempdir()) / "clerk-bench-ocr-venv"
    if not (folder / "bin" / "ocrmypdf").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        packages = ["ocrmypdf", "pdf2image", "pytesseract"]
        subprocess.run([str(folder / "bin" / "pip"), "install", "-qq", *packages], check=True)
    return folder


def naive(files: Sequence[Path], venv: Path) -> list[str]:
    python = str(venv / "bin" / "python")
    halves = [files[::2], files[1::2]]
    outputs = run_in_parallel([[python, "-c", NAIVE, *map(str, half)] for half in halves if half], dict(os.environ))
    by_half = [text.split("\x1e")[:-1] for text in outputs]
    pages: list[str] = []
    for number in range(len(files)):
        half, place = by_half[number % 2], number // 2 * PAGES_PER_DOCUMENT
        pages += half[place : place + PAGES_PER_DOCUMENT]
    return pages


def ocrmypdf(files: Sequence[Path], venv: Path, folder: Path) -> list[str]:
    """One document with all pages, which is fastest for OCRmyPDF: with several, cores idle at each end."""
    everything, sidecar = folder / "all.pdf", folder / "all.txt"
    if not everything.exists():
        subprocess.run(["pdfunite", *map(str, files), str(everything)], check=True)
    command = [str(venv / "bin" / "ocrmypdf"), "-q", "-j2", "--sidecar", str(sidecar)]
    environment = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    subprocess.run([*command, str(everything), str(folder / "out.pdf")], env=environment, check=True)
    return sidecar.read_text().split("\f")[: len(files) * PAGES_PER_DOCUMENT]


def render_like_clerk(
    clerk: Clerk, documents: Sequence[Document], files: Sequence[Path], folder: Path
) -> list[tuple[Path, int]]:
    """The page images that clerk recognised, rendered again, with their dpi (from the size of the kept images)."""
    storage = SiteStorage(clerk.root, documents[0].subdomain)
    images = []
    for document, file in zip(documents, files, strict=True):
        for page in json.loads(storage.manifest(document).read_text())["pages"]:
            with Image.open(storage.page_image(document, page["page"])) as kept:
                dpi = round(DEFAULT_DPI * max(kept.size) / max(_size(file, page["page"], folder)))
            base = folder / f"alone-{document.id:04}-{page['page']}"
            _render(file, page["page"], dpi, base)
            images.append((base.with_suffix(".pgm"), dpi))
    return images


def _size(file: Path, page: int, folder: Path) -> tuple[int, int]:
    _render(file, page, DEFAULT_DPI, folder / "size")
    with Image.open(folder / "size.pgm") as image:
        return image.size


def _render(file: Path, page: int, dpi: int, base: Path) -> None:
    command = ["pdftoppm", "-gray", "-r", str(dpi), "-f", str(page), "-l", str(page), "-singlefile"]
    subprocess.run([*command, str(file), str(base)], check=True, capture_output=True)


def tesseract_alone(images: Sequence[tuple[Path, int]]) -> list[str]:
    """The system's program, once per image, two at a time."""

    def run(share: Sequence[tuple[Path, int]]) -> None:
        for image, dpi in share:
            command = ["tesseract", str(image), str(image.with_suffix("")), "--dpi", str(dpi), "txt", "tsv"]
            subprocess.run(command, env=ONE_THREAD, check=True, capture_output=True)

    threads = [threading.Thread(target=run, args=(images[start::2],)) for start in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [image.with_suffix(".txt").read_text() for image, _ in images]


# --- results


class Steps:
    """Reports each result as soon as it is known: the whole takes minutes."""

    def __init__(self, progress: ProgressReporter, of: int) -> None:
        self.progress, self.of, self.number = progress, of, 0
        progress.update("steps", 0, of)

    def done(self, what: str, row: dict[str, float] | None = None) -> None:
        self.number += 1
        self.progress.note(f"{what}: {row or 'done'}")
        self.progress.update("steps", self.number, self.of)


def measure(
    folder: Path,
    count: int,
    naive_documents: int,
    parts: Sequence[str],
    before: Path | None,
    rounds: int,
    scratch: Path,
    progress: ProgressReporter,
) -> dict[str, Any]:
    steps = Steps(progress, sum({"scanned": 4, "digital": 1, "resumed": 1, "large": 1}[part] for part in parts))
    results: dict[str, Any] = {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 2)}
    with running(Server(scratch / "postgres", options=NO_FSYNC)) as url, connect_to(url) as connection:
        Migrator(connection, default_folder()).up()
        clerk = Clerk(url, connection, scratch / "storage")
        if "scanned" in parts:
            results |= scanned(clerk, folder, count, naive_documents, scratch, steps)
        if "digital" in parts:
            results |= digital(clerk, folder, before, rounds)
            steps.done("digital")
        if "large" in parts:
            results |= large(clerk, scratch, before)
            steps.done("large")
        if "resumed" in parts:
            results |= resumed(clerk, scratch)
            steps.done("resumed")
        results["peak_megabytes"] = round(clerk.peak / 1e6)
    return results | {"load_after": round(os.getloadavg()[0], 2)}


def scanned(
    clerk: Clerk, folder: Path, count: int, naive_documents: int, scratch: Path, steps: Steps
) -> dict[str, Any]:
    pages = select_pages(folder, count)
    files = rasterise(pages, scratch)
    truth = [text for _, _, text in pages]
    venv = other_tools_venv()
    results: dict[str, Any] = {"pages": len(pages), "documents": len(files)}

    documents = clerk.site("scanned", files)
    with measuring() as measured:
        clerk.work(2)
    cpu = measured().cpu
    seconds = clerk.seconds("scanned")
    results["clerk"] = _row(len(pages), seconds, cpu, error_rate(truth, clerk.texts(documents)))
    steps.done("clerk", results["clerk"])

    with measuring() as measured:
        texts = ocrmypdf(files, venv, scratch)
    results[OCRMYPDF] = _row(len(pages), measured().wall, measured().cpu, error_rate(truth, texts))
    steps.done(OCRMYPDF, results[OCRMYPDF])

    images = render_like_clerk(clerk, documents, files, scratch)
    with measuring() as measured:
        alone = tesseract_alone(images)
    results["tesseract alone"] = _row(len(pages), measured().wall, measured().cpu, error_rate(truth, alone))
    steps.done("tesseract alone", results["tesseract alone"])
    results["pages at higher dpi"] = sum(dpi > DEFAULT_DPI for _, dpi in images)

    some = files[:naive_documents]
    first = truth[: len(some) * PAGES_PER_DOCUMENT]
    with measuring() as measured:
        texts = naive(some, venv)
    results["naive loop"] = _row(len(first), measured().wall, measured().cpu, error_rate(first, texts))
    steps.done("naive loop", results["naive loop"])

    def ratio(name: str, baseline: str, figure: str) -> float:
        return round(float(results[name][figure] / results[baseline][figure]), 2)

    more_errors = results["clerk"]["errors"] - results[OCRMYPDF]["errors"]
    results["targets"] = [
        target("pages/s, to OCRmyPDF's", ratio("clerk", OCRMYPDF, "pages_per_second"), at_least=1.7),
        target("pages per CPU second, to OCRmyPDF's", ratio(OCRMYPDF, "clerk", "cpu_seconds_per_page"), at_least=2.0),
        target("wrong characters, points above OCRmyPDF's", round(more_errors, 3), at_most=0.05),
        target("pages/s, to the naive loop's", ratio("clerk", "naive loop", "pages_per_second"), at_least=10),
        target(
            "CPU s/page, to tesseract alone", ratio("clerk", "tesseract alone", "cpu_seconds_per_page"), at_most=1.15
        ),
    ]
    return results


def target(what: str, is_: float, at_least: float | None = None, at_most: float | None = None) -> dict[str, Any]:
    """A ratio with its target, if it has one, and whether it is met."""
    met = None
    if at_least is not None:
        met = is_ >= at_least
    if at_most is not None:
        met = is_ <= at_most
    wanted = f"at least {at_least}" if at_least is not None else f"at most {at_most}" if at_most is not None else ""
    return {"what": what, "is": is_, "wanted": wanted, "met": met}


def _row(pages: int, seconds: float, cpu: float, errors: float) -> dict[str, float]:
    return {
        "pages": pages,
        "pages_per_second": round(pages / seconds, 3),
        "cpu_seconds_per_page": round(cpu / pages, 3),
        "errors": round(errors, 3),
    }


def digital(clerk: Clerk, folder: Path, before: Path | None, rounds: int) -> dict[str, Any]:
    """The share of pages with a text layer; for documents without rendering, the CPU time through the job."""
    files = sorted(folder.glob("*.pdf"))
    documents = clerk.site("digital", files)
    clerk.work(1)
    clerk.seconds("digital")
    storage = SiteStorage(clerk.root, "digital")
    methods: Counter[str] = Counter()
    not_rendered, pages_not_rendered = [], 0
    for document, file in zip(documents, files, strict=True):
        pages = json.loads(storage.manifest(document).read_text())["pages"]
        methods.update(page["method"] for page in pages)
        if not any(storage.page_image(document, page["page"]).exists() for page in pages):
            not_rendered.append(file)
            pages_not_rendered += len(pages)
    with measuring() as pdftotext:
        for file in not_rendered:
            subprocess.run(["pdftotext", str(file), os.devnull], check=True, capture_output=True)
    return {
        "born-digital": {
            "pages": methods.total(),
            "methods": dict(methods),
            "share_of_text_layer": round(methods["text-layer"] / methods.total(), 3),
            "documents_not_rendered": len(not_rendered),
            "pages_not_rendered": pages_not_rendered,
            "cpu_milliseconds_per_page_pdftotext": round(1000 * pdftotext().cpu / pages_not_rendered, 1),
            "rounds": compare(clerk, not_rendered, pages_not_rendered, before, rounds, "rounds"),
        }
    }


def large(clerk: Clerk, scratch: Path, before: Path | None, pages: int = 200) -> dict[str, Any]:
    """One scan with many pages, which uses all cores that are free."""
    file = scratch / "large.pdf"
    file.write_bytes(pdfs.numbered(pages))
    return {"large": {"pages": pages, "rounds": compare(clerk, [file], pages, before, 1, "large")}}


def resumed(clerk: Clerk, scratch: Path, pages: int = 200) -> dict[str, Any]:
    file = scratch / "long.pdf"
    file.write_bytes(pdfs.numbered(pages))
    clerk.site("uninterrupted", [file])
    with measuring() as uninterrupted:
        clerk.work(1)
    clerk.seconds("uninterrupted")
    clerk.site("resumed", [file])
    claim = "select job_id, progress from job_claims where settled_as is null"
    with measuring() as measured:
        worker = clerk.worker()
        while ((row := clerk.connection.execute(claim).fetchone()) is None) or (row[1] or 0) < pages // 2:
            time.sleep(0.01)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        clerk.connection.execute("update job_claims set lease_until = now() - interval '1 minute'")
        assert engine.rescue_job(clerk.connection, row[0]) == "rescued"
        clerk.work(1)
    return {
        "resumed": {
            "pages": pages,
            "seconds_uninterrupted": round(uninterrupted().wall, 1),
            "seconds_killed_half_way_and_resumed": round(measured().wall, 1),
            "overhead_percent": round(100 * (measured().wall / uninterrupted().wall - 1), 1),
        }
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench ocr", description=__doc__)
    parser.add_argument("--civic", type=Path, default=CIVIC, help="folder of born-digital PDFs")
    parser.add_argument("--pages", type=int, default=48, help="scanned pages (default: 48)")
    parser.add_argument(
        "--naive-documents",
        type=int,
        default=2,
        help="documents for the naive loop, which takes ten times as long (default: 2)",
    )
    parser.add_argument(
        "--only",
        nargs="*",
        choices=PARTS,
        default=["scanned", "digital", "resumed"],
        help="parts to run (default: all but large, a scan of 200 pages)",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="an older checkout with a .venv and the same migrations: digital and large are measured in turn with both",
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of digital (default: 3)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args()
    if not options.civic.is_dir():
        parser.error(f"{options.civic} does not exist; pass a folder of born-digital PDFs with --civic")
    if options.naive_documents < 1:
        parser.error("--naive-documents must be at least 1")
    with tempfile.TemporaryDirectory(prefix="clerk-bench-ocr-") as scratch, ProgressReporter(options.quiet) as progress:
        results = measure(
            options.civic,
            options.pages,
            options.naive_documents,
            options.only,
            options.before.absolute() if options.before else None,
            options.rounds,
            Path(scratch),
            progress,
        )
    print(json.dumps(results, indent=2) if options.json else "\n".join(report(results)))  # noqa: T201


if __name__ == "__main__":
    main()
