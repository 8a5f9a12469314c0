"""What is damage, and what only keeps us from looking."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clerk.archive import integrity


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "meetings.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table minutes (text text)")
        connection.executemany("insert into minutes values (?)", [["a page of text " * 50]] * 50)
        connection.commit()
    return path


def test_what_is_whole_gone_or_damaged(database: Path) -> None:
    assert integrity.find_problem(database) is None
    assert integrity.find_problem(database.with_name("other.db")) == "is gone"
    content = database.read_bytes()
    database.write_bytes(content[:6000])
    assert "is damaged" in str(integrity.find_problem(database))
    database.write_bytes(content[:100] + b"\0" * (len(content) - 100))
    assert "is damaged" in str(integrity.find_problem(database))


def test_half_a_transaction_is_damage(database: Path) -> None:
    """Its journal lies beside it: somebody who wrote into it was killed."""
    half = database.with_name("half.db")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma cache_size = 1")
        connection.execute("update minutes set text = 'another ' || text")
        shutil.copy(database, half)
        shutil.copy(f"{database}-journal", f"{half}-journal")
    assert "is damaged" in str(integrity.find_problem(half))


def test_what_sqlite_cannot_open_is_not_damaged(database: Path) -> None:
    """SQLite refuses names of more than 512 bytes, which the file system takes."""
    deep = database.parent.joinpath(*["d" * 100] * 5)
    deep.mkdir(parents=True)
    with pytest.raises(OSError, match="cannot be read"):
        integrity.find_problem(Path(shutil.copy(database, deep)))
