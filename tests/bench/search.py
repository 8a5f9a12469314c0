"""`bin/bench search`: the search index over all sites, against SQLite FTS5 by shard and against opening each archive.

Pages are recombined from the sentences of samples. A search is what a user waits for: the index, 20 texts with their
snippets from the archives, the number of results and the facets.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path

import click

from clerk.archive.compile import archive_schema
from clerk.archive.query import InvalidQuery, Query, parse
from clerk.archive.search import SearchRequest, search
from clerk.publish import index_documents
from clerk.publish.published_search import search_published
from clerk.publish.search_index import SearchIndex
from clerk.publish.versions import DATABASE, SiteVersions, published_archives
from tests.bench.search_corpus import BenchPage, pages, rare_word, read_sentences
from tests.bench.search_fts5 import Fts5Shards

_VERSION = "20240101T000000000000Z-000000000000"
_INSERT = "insert into minutes (id, meeting, date, page, text) values (?, ?, ?, ?, ?)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench search", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000, help="default: a million")
    parser.add_argument("--sites", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument(
        "--samples", type=Path, help="folder with PDFs, texts and labelled pages; default: generated text"
    )
    parser.add_argument("--without-fts5", action="store_true", help="measure only the index that clerk has")
    parser.add_argument(
        "--folder", type=Path, help="for the archives and indexes, several KB per page; default: a temporary one"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="clerk-bench-", dir=options.folder))
    try:
        _measure(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(folder: Path, options: argparse.Namespace) -> None:
    sentences = read_sentences(options.samples)
    click.echo(f"{options.pages:,} pages of {options.sites:,} sites, from {len(sentences):,} sentences; load {_load()}")
    queries = list(make_queries(sentences, options.queries))

    def corpus() -> Iterator[BenchPage]:
        return pages(options.pages, options.sites, sentences)

    published = folder / "published"
    _timed("publish the archives", lambda: publish(published, corpus()))
    _timed("build the index (tantivy)", lambda: build_index(published, corpus()))
    index = SearchIndex(published).folder
    click.echo(f"  {_size(index):,.0f} MB")
    _report("index (tantivy), all included", queries, lambda query: search_published(published, SearchRequest(query)))
    if not options.without_fts5:
        shards = Fts5Shards(folder / "fts5", os.cpu_count() or 1)
        _timed("build the index (FTS5 by shard)", lambda: shards.build(corpus()))
        click.echo(f"  {_size(folder / 'fts5'):,.0f} MB")
        few = queries[:: max(1, len(queries) // 20)]
        _report("index (FTS5 by shard), without texts", few, lambda query: shards.search(query, 20))
    archives = published_archives(published)[: min(200, options.sites)]
    _report(
        f"opening {len(archives)} archives, with empty search tables",
        queries[:5],
        lambda query: search(archives, SearchRequest(query)),
    )


def make_queries(sentences: list[str], count: int) -> Iterator[Query]:
    """What people type: mostly one to three words of a sentence, names, phrases; some prefixes and operators."""
    generator = random.Random(2)  # noqa: S311 (not for cryptography)
    made = 0
    while made < count:
        words = re.findall(r"[a-zA-Z]{4,}", generator.choice(sentences))
        if len(words) < 4:
            continue
        at = generator.randrange(len(words) - 2)
        first, second, third = words[at : at + 3]
        name = rare_word(generator.randrange(20_000))
        text = generator.choices(
            [first, f"{first} {second}", f"{first} {second} {third}", f'"{first} {second}"', name, f"{name} {first}",
             f"{first[:4]}*", f"{first} OR {second}", f"{first} -{third}", f"NEAR({first} {second}, 5)"],
            [15, 30, 10, 15, 10, 5, 4, 4, 4, 3],
        )[0]  # fmt: skip
        try:
            query = parse(text)
        except InvalidQuery:  # a word such as XOR
            continue
        made += 1
        yield query


def publish(root: Path, corpus: Iterable[BenchPage]) -> None:
    """An archive per site. Their own search tables stay empty: the index answers."""
    template = root / "template.db"
    root.mkdir(parents=True)
    with closing(sqlite3.connect(template)) as connection, connection:
        connection.executescript(archive_schema())
        for (trigger,) in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            connection.execute(f"drop trigger {trigger}")
    for site, site_pages in groupby(corpus, key=lambda page: page.site):
        versions = SiteVersions(root, site)
        version = versions.versions_folder / _VERSION
        version.mkdir(parents=True)
        shutil.copyfile(template, version / DATABASE)
        with closing(sqlite3.connect(version / DATABASE)) as connection, connection:
            rows = ([page.id, page.body, page.date, page.page, page.words] for page in site_pages)
            connection.execute("pragma synchronous = off")
            connection.executemany(_INSERT, rows)
        versions.link.symlink_to(f"versions/{_VERSION}", target_is_directory=True)


def build_index(root: Path, corpus: Iterable[BenchPage]) -> None:
    """With terms that are already computed: they take 0.8 ms per page."""
    folder = SearchIndex(root).folder
    folder.mkdir(parents=True)
    index = index_documents.create(folder)
    writer = index.writer(256_000_000, 2)
    for site, site_pages in groupby(corpus, key=lambda page: page.site):
        for page in site_pages:
            place = index_documents.IndexedPage(site, "minutes", page.id, page.body, page.date, page.page, None, "")
            index_documents.add_page(writer, place, page.words, page.stems)
        index_documents.add_site_record(writer, site, _VERSION)
    writer.commit()
    writer.wait_merging_threads()


def _timed(what: str, work: Callable[[], object]) -> None:
    began, cpu = time.monotonic(), time.process_time()
    work()
    elapsed, used = time.monotonic() - began, time.process_time() - cpu
    click.echo(f"{what}: {elapsed:.0f} s ({used:.0f} CPU s); load {_load()}")


def _report(what: str, queries: list[Query], run: Callable[[Query], object]) -> None:
    """Elapsed time and CPU time of each search. On a busy machine, the CPU time is what an idle one would take."""
    run(queries[0])
    elapsed, used = [], []
    for query in queries:
        began, cpu = time.perf_counter(), time.process_time()
        run(query)
        elapsed.append((time.perf_counter() - began) * 1000)
        used.append((time.process_time() - cpu) * 1000)
    slowest = queries[used.index(max(used))].text
    click.echo(f"{what}: {len(queries)} searches; load {_load()}")
    for name, times in (("elapsed", elapsed), ("CPU", used)):
        p95 = statistics.quantiles(times, n=20)[-1]
        click.echo(f"  {name}: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms, longest {max(times):.0f} ms")
    click.echo(f"  most CPU: {slowest}")


def _size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
