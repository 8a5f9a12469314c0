"""Pages of an archive by kind."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from clerk.saved_searches import page_query


def test_a_table_of_several_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"minutes": "minutes", "packet": "others", "report": "others", "agenda": "missing"}
    monkeypatch.setattr(page_query, "TABLES", tables)
    with closing(sqlite3.connect(":memory:")) as archive:
        archive.execute("create table minutes (id text, meeting text, date text, page integer, text text)")
        archive.execute("create table others (id text, kind text, meeting text, date text, page integer, text text)")
        archive.execute("insert into minutes values ('1', 'Council', '2024-01-01', 1, 'bike lanes')")
        archive.execute("insert into others values ('2', 'packet', 'Council', '2024-01-02', 1, 'bike lanes')")
        found = [(page.kind, page.page_id) for page in page_query.sample_pages(archive, "bike", 5)]
    assert found == [("packet", "2"), ("minutes", "1")]
