"""Helpers for people's own scripts, with the names and arguments that they had in legacy clerk.

Each call opens a connection (DATABASE_URL, or the embedded Postgres) and calls the SQL function of the same name in
`sql/functions/compat`. They change the counters of a site, not the ledger, and the engine does not use them. A site
that has counters but no run is taken over by reconciliation. An unknown site is an error here; the SQL functions
ignore it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from psycopg import Connection

from clerk import config
from clerk.db.connection import connect
from clerk.db.sites import read_site, site_not_found
from clerk.errors import UnknownStage
from clerk.pipeline import engine


def initialize_stage(subdomain: str, stage: str, total_jobs: int) -> None:
    """Set the stage of a site and its counters: `total_jobs`, 0 and 0. The coordinator is unclaimed."""
    _check_stage(stage)
    with _site(subdomain) as connection:
        engine.initialize_stage(connection, subdomain, stage, total_jobs)


def increment_completed(subdomain: str, stage: str) -> None:
    _check_stage(stage)
    with _site(subdomain) as connection:
        engine.increment_completed(connection, subdomain, stage)


def increment_failed(subdomain: str, stage: str, error_message: str, error_class: str) -> None:
    """Count a failure, and record it in last_error_stage, last_error_message and last_error_at."""
    _check_stage(stage)
    with _site(subdomain) as connection:
        engine.increment_failed(connection, subdomain, stage, error_message, error_class)


def should_trigger_coordinator(subdomain: str, stage: str) -> bool:
    """Whether every job of the stage's phase has ended and the coordinator is not claimed yet."""
    _check_stage(stage)
    with _site(subdomain) as connection:
        return engine.should_trigger_coordinator(connection, subdomain, stage)


def claim_coordinator_enqueue(subdomain: str) -> bool:
    """Claim the coordinator: true for exactly one caller per stage."""
    with _site(subdomain) as connection:
        return engine.claim_coordinator_enqueue(connection, subdomain)


@contextlib.contextmanager
def _site(subdomain: str) -> Iterator[Connection]:
    with connect(config.load()) as connection:
        if read_site(connection, subdomain) is None:
            raise site_not_found(connection, subdomain)
        yield connection


def _check_stage(stage: str) -> None:
    if stage not in engine.STAGES:
        raise UnknownStage(f"{stage} is not a stage")
