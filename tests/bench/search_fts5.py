"""The alternative that `bin/bench search` measures: an index of all sites in SQLite FTS5, sharded by site."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from clerk.archive.query import Query
from tests.bench.search_corpus import BenchPage

_SCHEMA = """
pragma journal_mode = off;
pragma synchronous = off;
create table pages (rowid integer primary key, site text, id text, body text, date text, page integer);
create virtual table terms using fts5 (words, stems, content='', tokenize='unicode61 remove_diacritics 0');
"""
_MATCHES = """
select terms.rank, p.rowid, p.site, p.body, p.date from terms join pages p on p.rowid = terms.rowid where terms match ?
"""


class Fts5Shards:
    def __init__(self, folder: Path, shards: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.files = [folder / f"shard{number}.db" for number in range(shards)]
        self._threads = ThreadPoolExecutor(shards)
        self._open: dict[Path, sqlite3.Connection] = {}

    def build(self, pages: Iterable[BenchPage]) -> None:
        shards = [sqlite3.connect(file) for file in self.files]
        for shard in shards:
            shard.executescript(_SCHEMA)
        for number, page in enumerate(pages, 1):
            shard = shards[int(page.site[4:]) % len(shards)]
            shard.execute("insert into terms (rowid, words, stems) values (?, ?, ?)", [number, page.words, page.stems])
            shard.execute(
                "insert into pages values (?, ?, ?, ?, ?, ?)",
                [number, page.site, page.id, page.body, page.date, page.page],
            )
            if number % 50_000 == 0:
                for each in shards:
                    each.commit()
        for shard in shards:
            shard.execute("insert into terms (terms) values ('optimize')")
            shard.commit()
            shard.close()

    def search(self, query: Query, limit: int) -> tuple[list[Any], int, dict[str, Counter[str]]]:
        """The best pages, the number of matches, and the facets."""
        results = list(self._threads.map(lambda file: self._search_shard(file, query.as_fts(), limit), self.files))
        facets = {name: sum((facet[name] for _, _, facet in results), Counter()) for name in ("site", "body", "year")}
        best = sorted(hit for hits, _, _ in results for hit in hits)[:limit]
        return best, sum(total for _, total, _ in results), facets

    def _search_shard(self, file: Path, fts: str, limit: int) -> tuple[list[Any], int, dict[str, Counter[str]]]:
        if file not in self._open:
            self._open[file] = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        facets: dict[str, Counter[str]] = {"site": Counter(), "body": Counter(), "year": Counter()}
        connection = self._open[file]
        best = connection.execute(_MATCHES + " order by terms.rank limit ?", [fts, limit]).fetchall()
        total = 0
        for site, body, year, count in connection.execute(
            "select p.site, p.body, substr(p.date, 1, 4), count(*) from terms join pages p on p.rowid = terms.rowid"
            " where terms match ? group by 1, 2, 3",
            [fts],
        ):
            total += count
            facets["site"][site] += count
            facets["body"][body] += count
            facets["year"][year] += count
        return best, total, facets
