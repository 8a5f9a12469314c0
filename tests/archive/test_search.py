from __future__ import annotations

import itertools
import time
from datetime import date
from pathlib import Path

import pytest

from clerk.archive.query import parse
from clerk.archive.search import SearchRequest, SearchResult
from clerk.archive.search import search as search_archives
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import published_archives
from tests.archive.published import publish


def search(
    archives: list[tuple[str, StoragePath]],
    words: str,
    since: date | None = None,
    limit: int = 20,
    seconds: float | None = None,
) -> SearchResult:
    return search_archives(archives, SearchRequest(parse(words), since=since, limit=limit), seconds)


def test_all_archives_are_searched(tmp_path: Path) -> None:
    publish(tmp_path, "alpha", {"text": "The bike lanes were approved."}, {"text": "Lanes for a bike.", "page": 2})
    publish(tmp_path, "beta", {"text": "New bike lanes", "kind": "agenda", "date": "2025-01-01"})
    publish(tmp_path, "gamma", {"text": "Nothing of the kind"})
    (tmp_path / "not published").mkdir()
    archives = published_archives(tmp_path)
    assert [name for name, _ in archives] == ["alpha", "beta", "gamma"]

    result = search(archives, "bike lanes")
    assert {(hit.subdomain, hit.kind, hit.page) for hit in result.hits} == {
        ("alpha", "minutes", 1),
        ("alpha", "minutes", 2),
        ("beta", "agenda", 1),
    }
    assert (result.archives, result.broken, result.unreached) == (3, {}, 0)
    assert len(search(archives, '"bike lanes"').hits) == 2
    assert [hit.subdomain for hit in search(archives, "bike", date(2024, 6, 1)).hits] == ["beta"]
    assert [hit.page for hit in search(published_archives(tmp_path, "alpha"), '"lanes for"').hits] == [2]
    assert len(search(archives, "bike", limit=1).hits) == 1


def test_results_are_sorted_by_rank_within_the_archive_and_then_by_date(tmp_path: Path) -> None:
    """By score alone alpha would come first: the word is rare there, and on every page of beta."""
    rare: list[dict[str, object]] = [{"text": "bike", "page": n, "date": f"2020-01-0{n}"} for n in (1, 2, 3)]
    rare += [{"text": f"nothing {n}", "page": n} for n in range(10, 60)]
    usual: list[dict[str, object]] = [{"text": f"a bike {n}", "page": n, "date": f"2025-01-0{n}"} for n in (1, 2, 3)]
    publish(tmp_path, "alpha", *rare)
    publish(tmp_path, "beta", *usual)
    hits = search(published_archives(tmp_path), "bike", limit=4).hits
    assert [(hit.subdomain, hit.rank) for hit in hits] == [("beta", 1), ("alpha", 1), ("beta", 2), ("alpha", 2)]
    assert hits[1].score < hits[0].score
    assert hits[0].date == "2025-01-03"


def test_words_in_any_script_and_prefixes(tmp_path: Path) -> None:
    publish(tmp_path, "alpha", {"text": "El niño fue al Ayuntamiento.", "page": 1}, {"text": "道路 会議", "page": 2})
    archives = published_archives(tmp_path)
    for words in ("NIÑO", "nino ayuntamiento", "ayunt*", '"al ayunt*"', "AYUNT* niñ*"):
        assert [hit.page for hit in search(archives, words).hits] == [1], words
    assert [hit.page for hit in search(archives, "道路").hits] == [2]
    for words in ("ayu", '"ayunt al"', "tamiento*", '"道路会議"'):
        assert search(archives, words).hits == [], words
    (hit,) = search(archives, "ayunt*").hits
    assert hit.snippet == "El niño fue al \x02Ayuntamiento\x03."


def test_a_broken_archive_is_reported_and_the_others_are_searched(tmp_path: Path) -> None:
    publish(tmp_path, "alpha", {"text": "bike lanes"}).write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    publish(tmp_path, "beta", {"text": "bike lanes"})
    result = search(published_archives(tmp_path), "bike")
    assert [hit.subdomain for hit in result.hits] == ["beta"]
    assert list(result.broken) == ["alpha"]
    assert result.archives == 1


def test_the_time_limit_ends_the_search_with_partial_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("alpha", "beta", "gamma"):
        publish(tmp_path, name, {"text": "bike lanes"})
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    result = search(published_archives(tmp_path), "bike", seconds=1.5)
    assert [hit.subdomain for hit in result.hits] == ["alpha"]
    assert (result.archives, result.unreached) == (1, 2)


def test_the_time_limit_interrupts_a_slow_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, "alpha", *({"text": f"bike lanes {n}", "page": n} for n in range(2000)))
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    result = search(published_archives(tmp_path), "bike", seconds=1.5)
    assert (result.hits, result.archives, result.unreached, result.broken) == ([], 0, 1, {})
