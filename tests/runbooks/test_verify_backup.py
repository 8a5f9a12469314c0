"""bin/verify-backup rejects bad dumps and drops its scratch database."""

from __future__ import annotations

import psycopg
import pytest

from tests.runbooks.conftest import Installation

_DAMAGED = 'psql -qc "{}" "$DATABASE_URL" && pg_dump -Fc -f last.dump "$DATABASE_URL"'
BAD = {
    "truncated": ("head -c 20000 good.dump > last.dump", "cannot be restored"),
    "violated invariants": (
        _DAMAGED.format("update sites set ocr_completed = 0"),
        "the restored database violates invariants",
    ),
    "lacks a trigger": (
        _DAMAGED.format("drop trigger clerk_fence on procrastinate_jobs"),
        "the restored schema does not match this version of clerk",
    ),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", BAD)
def test_a_bad_dump_is_found(installation: Installation, how: str) -> None:
    spoil, problem = BAD[how]
    dumped = installation.run(f'pg_dump -Fc -f good.dump "$DATABASE_URL"\n{spoil}')
    assert dumped.returncode == 0, dumped.stderr
    checked = installation.run("bin/verify-backup last.dump")
    assert checked.returncode == 1
    assert problem in checked.stderr
    with psycopg.connect(installation.database) as connection:
        assert connection.execute("select datname from pg_database where datname ~ 'verify_backup'").fetchall() == []


def test_a_dump_that_is_not_there_is_wrong_usage(installation: Installation) -> None:
    assert installation.run("bin/verify-backup nowhere.dump").returncode == 2
