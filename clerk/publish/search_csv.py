"""All results of a search as CSV, a batch at a time, so that any number of them fits in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from clerk.archive.hits import CSV_COLUMNS
from clerk.archive.query import Query
from clerk.archive.search import SearchResult
from clerk.object_storage.path import StoragePath
from clerk.publish.published_search import search_published
from clerk.publish.search_form import SearchForm

_BATCH = 1000


class SearchCsv:
    """The first results are read when the object is made: then `first` tells whether the search was complete."""

    def __init__(
        self, publish_dir: StoragePath, form: SearchForm, query: Query, seconds: float | None, limit: int | None = None
    ) -> None:
        """`limit`: write at most so many results."""
        self._publish_dir, self._form, self._query = publish_dir, form, query
        self._seconds, self._limit = seconds, limit
        self.first = self._search(0)

    def chunks(self) -> Iterator[str]:
        yield _as_csv([CSV_COLUMNS])
        result, written = self.first, 0
        while result.hits:
            written += _BATCH
            yield _as_csv(hit.as_csv_row(CSV_COLUMNS) for hit in result.hits)
            if written >= (self.first.total if self._limit is None else min(self.first.total, self._limit)):
                return
            result = self._search(written)

    def _search(self, offset: int) -> SearchResult:
        size = _BATCH if self._limit is None else min(_BATCH, self._limit - offset)
        request = replace(self._form.request(self._query), offset=offset, limit=size)
        return search_published(self._publish_dir, request, self._form.site or None, self._seconds)


def file_name(form: SearchForm) -> str:
    """`search tree cutting.csv`, in ASCII letters and digits."""
    words = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in form.q)
    return " ".join(["search", *words.split()])[:80].strip() + ".csv"


def _as_csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
