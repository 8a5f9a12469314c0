"""Pages per second with the storage in a folder and in a bucket, side by side.

For each storage: OCR of documents with a text layer and of scanned documents (with the real reader processes), then the
compilation of the archive, a second time without changes, the publication, and the first and second search. The S3
server is moto, on this machine, behind a proxy that adds the latency to every request: both are written in Python, and
several hundred requests per second are their limit. The times per page include them. The storages take turns, and of
each figure the best of all rounds is shown, since other programs only make it worse.

    bin/bench storage
    bin/bench storage --latency-ms 0 1 5 --documents 40 --pages 10
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from clerk.archive.compile import compile_site
from clerk.archive.query import parse
from clerk.archive.search import SearchRequest
from clerk.archive.selection import Candidate, select
from clerk.documents.storage import Document, SiteStorage, write
from clerk.object_storage.path import ObjectPath, StoragePath, object_root
from clerk.object_storage.url import parse_bucket_url
from clerk.ocr import process_document
from clerk.ocr.process_document import Options
from clerk.publish.published_search import search_published
from clerk.publish.versions import SiteVersions
from tests.object_storage.fault_proxy import FaultProxy, fault_proxy
from tests.ocr import pdfs
from tests.s3 import BUCKET, CREDENTIALS, s3_server

SITE = "springfield"
FIRST_DAY = date(2000, 1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/bench storage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20, help="with a text layer")
    parser.add_argument("--pages", type=int, default=10, help="of each of them")
    parser.add_argument("--scanned", type=int, default=5, help="scanned documents of one page")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[0.0, 1.0], help="added to every request")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    os.environ.update(CREDENTIALS)
    contents = {
        "text layer": (pdfs.digital(options.pages), options.documents, options.pages),
        "scanned": (pdfs.scanned([pdfs.page_image()]), options.scanned, 1),
    }
    columns: dict[str, dict[str, float]] = {}
    with s3_server() as endpoint:
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                _keep_best(columns, "folder", _measure(Path(folder) / "storage", contents, None))
                for latency in options.latency_ms:
                    with fault_proxy(endpoint, latency / 1000) as proxy:
                        url = parse_bucket_url(f"s3://{BUCKET}/{latency:g}ms?endpoint={proxy.url}")
                        root = object_root(url, Path(folder) / f"cache {latency:g}", 10_000_000_000)
                        _keep_best(columns, f"S3, {latency:g} ms", _measure(root, contents, proxy))
    if options.json:
        _print(json.dumps(columns, indent=1))
        return
    width = max(map(len, columns["folder"]))
    _print(" " * width, *(f"{name:>12}" for name in columns))
    for row in columns["folder"]:
        _print(f"{row:<{width}}", *(f"{column[row]:>12,.1f}" for column in columns.values()))


def _keep_best(columns: dict[str, dict[str, float]], name: str, measured: dict[str, float]) -> None:
    best = columns.setdefault(name, measured)
    for row, value in measured.items():
        best[row] = max(best[row], value) if row.endswith("pages/s") else min(best[row], value)


def _print(*cells: str) -> None:
    sys.stdout.write("  ".join(cells) + "\n")
    sys.stdout.flush()


def _measure(
    root: StoragePath, contents: dict[str, tuple[bytes, int, int]], proxy: FaultProxy | None
) -> dict[str, float]:
    storage = SiteStorage(root, SITE)
    candidates: list[Candidate] = []
    result: dict[str, float] = {}
    total = 0
    for kind, (content, count, pages) in contents.items():
        documents = [_add(storage, candidates, content) for _ in range(count)]
        # The first one starts the processes and connections.
        process_document.process(storage, documents[0], Options(), lambda done, of: None, lambda: None)
        measured = documents[1:]
        with _timed(proxy) as timing:
            for document in measured:
                process_document.process(storage, document, Options(), lambda done, of: None, lambda: None)
        number = len(measured) * pages
        total += count * pages
        result[f"OCR, {kind}: pages/s"] = number / timing["seconds"]
        result[f"OCR, {kind}: requests/page"] = timing["requests"] / number

    def compile_all() -> None:
        snapshot = storage.snapshot()
        compile_site(snapshot, select(snapshot, candidates))

    publish_dir = root / "_published"
    request = SearchRequest(parse("bridge"), limit=10)
    steps: dict[str, Callable[[], Any]] = {
        "compilation: pages/s": compile_all,
        "compilation, unchanged: pages/s": compile_all,
        "publication: ms": lambda: SiteVersions(publish_dir, SITE).publish(storage.database, keep=3),
        "first search: ms": lambda: search_published(publish_dir, request),
        "second search: ms": lambda: search_published(publish_dir, request),
    }
    for name, step in steps.items():
        with _timed(proxy) as timing:
            step()
        seconds = timing["seconds"]
        result[name] = total / seconds if name.endswith("/s") else seconds * 1000
    if isinstance(root, ObjectPath):
        root.delete_tree()
    return result


def _add(storage: SiteStorage, candidates: list[Candidate], content: bytes) -> Document:
    number = len(candidates) + 1
    document = Document(number, SITE, "minutes", "City Council", FIRST_DAY + timedelta(days=number))
    write(storage.pdf(document), content)
    candidates.append(Candidate(document, number, is_processed=True))
    return document


@contextmanager
def _timed(proxy: FaultProxy | None) -> Iterator[dict[str, float]]:
    timing: dict[str, float] = {}
    requests = len(proxy.requests) if proxy else 0
    started = time.perf_counter()
    yield timing
    timing["seconds"] = time.perf_counter() - started
    timing["requests"] = (len(proxy.requests) if proxy else 0) - requests


if __name__ == "__main__":
    main()
