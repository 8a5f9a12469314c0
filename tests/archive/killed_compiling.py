"""`python -m tests.archive.killed_compiling BEFORE SCRATCH`: compiles two documents where the archive has one."""

from __future__ import annotations

import sys
from pathlib import Path

from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from tests.archive.helpers import SiteDocuments, is_intact, rows
from tests.archive.kill_helpers import kill_at_every_step


def two_documents(storage: Path) -> SiteDocuments:
    site = SiteDocuments(storage)
    site.add(number=1)
    site.add(number=2, kind="agenda")
    return site


def work(storage: Path) -> None:
    site = two_documents(storage)
    compile_site(site.storage, select(site.storage, site.candidates.values()))


def inspect(storage: Path) -> object:
    database = SiteDocuments(storage).storage.database
    query = "select (select count(*) from minutes), (select count(*) from agendas)"
    return {"pages": rows(database, query)[0], "intact": is_intact(database)} if database.exists() else None


if __name__ == "__main__":
    kill_at_every_step(work, Path(sys.argv[1]), Path(sys.argv[2]), inspect)
