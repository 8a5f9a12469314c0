"""Words of archives that are spelled like a word of a query that no page has."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterable

from clerk.archive.content_hash import open_readonly
from clerk.archive.pages import existing_tables
from clerk.archive.query import ArchiveForm
from clerk.archive.search_tables import detect_form
from clerk.archive.terms import LANGUAGES, fold, stem
from clerk.object_storage.path import StoragePath

_SHORTEST = 3
_SHORT = 5
"""Up to this length, one letter may differ; in longer words, two."""
_VOCABULARY = "create virtual table temp.VOCABULARY using fts5vocab (main, INDEX_TABLE, col)"
_KNOWN = "select 1 from temp.VOCABULARY where term = ? and col = ? limit 1"
_SAME_FIRST_LETTER = (
    "select term, doc from temp.VOCABULARY"
    " where term >= ? and term < ? and col = 'words' and length(term) between ? and ?"
)


def correct_words(words: Iterable[str], archives: Iterable[tuple[str, StoragePath]], seconds: float) -> dict[str, str]:
    """Each word that no archive has → the most similar word of the archives, if there is one.

    The first letter must be right. After `seconds`, the archives that were not read are left out. An archive without
    search terms, or that cannot be read, has no words.
    """
    deadline = time.monotonic() + seconds
    unknown = {word for word in map(fold, words) if len(word) >= _SHORTEST and word.isalpha()}
    similar: dict[str, Counter[str]] = {word: Counter() for word in unknown}
    for _, database in archives:
        if time.monotonic() > deadline or not unknown:
            break
        try:
            with open_readonly(database) as connection:
                connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
                if detect_form(connection) is ArchiveForm.TERMS:
                    unknown -= _read_archive(connection, unknown, similar)
        except sqlite3.Error:
            continue  # the search itself reports what it could not read
    found = {word: _best(word, similar[word]) for word in unknown}
    return {word: best for word, best in found.items() if best is not None}


def _read_archive(connection: sqlite3.Connection, unknown: set[str], similar: dict[str, Counter[str]]) -> set[str]:
    """Count the similar words of an archive. Returns the words that it has as they are, or in another form."""
    known = set()
    for table in existing_tables(connection):
        vocabulary = f"{table}_words"
        connection.execute(_VOCABULARY.replace("VOCABULARY", vocabulary).replace("INDEX_TABLE", f"{table}_search"))
        for word in unknown:
            forms = [(word, "words"), *((stem(word, language), "stems") for language in LANGUAGES)]
            if any(connection.execute(_KNOWN.replace("VOCABULARY", vocabulary), form).fetchone() for form in forms):
                known.add(word)
                continue
            reach = _reach(word)
            bounds = (word[0], chr(ord(word[0]) + 1), len(word) - reach, len(word) + reach)
            for term, pages in connection.execute(_SAME_FIRST_LETTER.replace("VOCABULARY", vocabulary), bounds):
                if term.isalpha() and edit_distance(word, term, reach) <= reach:
                    similar[word][term] += pages
    return known


def _reach(word: str) -> int:
    return 1 if len(word) <= _SHORT else 2


def _best(word: str, similar: Counter[str]) -> str | None:
    """The word with the fewest differences, then the one on most pages."""
    ranked = sorted(similar.items(), key=lambda item: (edit_distance(word, item[0], 2), -item[1], item[0]))
    return ranked[0][0] if ranked else None


def edit_distance(first: str, second: str, limit: int) -> int:
    """Letters that were added, left out, replaced or swapped with their neighbour. More than `limit`: limit + 1."""
    before: list[int] = []
    previous = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        current = [i]
        for j, other in enumerate(second, 1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return min(previous[-1], limit + 1)
