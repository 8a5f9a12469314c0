"""Damage, and errors that only prevent reading."""

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


def test_intact_missing_and_damaged_files(database: Path) -> None:
    assert integrity.find_problem(database) is None
    assert integrity.find_problem(database.with_name("other.db")) == "is missing"
    content = database.read_bytes()
    database.write_bytes(content[:6000])
    assert "is damaged" in str(integrity.find_problem(database))
    database.write_bytes(content[:100] + b"\0" * (len(content) - 100))
    assert "is damaged" in str(integrity.find_problem(database))


def test_half_a_transaction_is_damage(database: Path) -> None:
    """A writer was killed: the rollback journal is still beside the database."""
    half = database.with_name("half.db")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma cache_size = 1")
        connection.execute("update minutes set text = 'another ' || text")
        shutil.copy(database, half)
        shutil.copy(f"{database}-journal", f"{half}-journal")
    assert "is damaged" in str(integrity.find_problem(half))


def test_a_file_that_sqlite_cannot_open_is_not_damaged(database: Path) -> None:
    """SQLite refuses paths of more than 512 bytes; the file system accepts them."""
    deep = database.parent.joinpath(*["d" * 100] * 5)
    deep.mkdir(parents=True)
    with pytest.raises(OSError, match="cannot be read"):
        integrity.find_problem(Path(shutil.copy(database, deep)))
