"""`python -m tests.archive.killed_compiling BEFORE PLAYGROUND`: compile two documents over an archive of one."""

from __future__ import annotations

import sys
from pathlib import Path

from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from tests.archive.kill_helpers import at_every_step
from tests.archive.library import Shelf, is_whole, rows


def shelf_of_two(storage: Path) -> Shelf:
    shelf = Shelf(storage)
    shelf.put(number=1)
    shelf.put(number=2, kind="agenda")
    return shelf


def work(storage: Path) -> None:
    shelf = shelf_of_two(storage)
    compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()))


def look(storage: Path) -> object:
    database = Shelf(storage).storage.database
    query = "select (select count(*) from minutes), (select count(*) from agendas)"
    return {"pages": rows(database, query)[0], "whole": is_whole(database)} if database.exists() else None


if __name__ == "__main__":
    at_every_step(work, Path(sys.argv[1]), Path(sys.argv[2]), look)
