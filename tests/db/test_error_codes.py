"""Migration 0019: error codes that were renamed, and exceptions without a code, up and down."""

from __future__ import annotations

from typing import Any

import psycopg

from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder

UNITS = {
    # Stage, old code and message → new code and message.
    ("fetch", "SiteMisconfigured", "no scraper"): ("SiteConfigError", "no scraper"),
    ("deploy", "SiteMisdescribed", "not a list"): ("SiteConfigError", "not a list"),
    ("ocr", "PluginHung", None): ("PluginTimeout", None),
    ("extraction", "ExtractorNonsense", "no page 9"): ("InvalidExtractorOutput", "no page 9"),
    ("compilation", "TextsGone", "empty"): ("AllTextsMissing", "empty"),
    ("ocr", "KeyError", "'pages': what?"): ("UnexpectedError", "KeyError: 'pages': what?"),
    ("ocr", "MemoryError", None): ("UnexpectedError", "MemoryError"),
    ("ocr", "PdfEncrypted", "KeyError: not a code"): ("PdfEncrypted", "KeyError: not a code"),
    ("ocr", None, None): (None, None),
}


def rows(connection: psycopg.Connection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


def test_codes_are_mapped_up_and_down(empty: psycopg.Connection, folder: SqlFolder) -> None:
    version = next(migration.version for migration in folder.migrations if migration.title == "error_codes")
    migrator = Migrator(empty, folder)
    migrator.up(version - 1)
    empty.execute(
        "insert into sites (subdomain, name, last_error_stage, last_error_message)"
        " values ('town', 'Town', 'deploy', 'SiteMisdescribed: a: b'), ('city', 'City', 'ocr', 'KeyError: x'),"
        " ('new', 'New', null, null)"
    )
    for number, (stage, code, message) in enumerate(UNITS, start=1):
        empty.execute(
            "insert into content_items (id, subdomain, kind, meeting, date, fetch_error_code, fetch_error_message)"
            " overriding system value values (%s, 'town', 'minutes', 'Council', %s::date + %s, %s, %s)",
            [number, "2024-01-01", number, "PluginNonsense" if number == 1 else None, "said" if number == 1 else None],
        )
        empty.execute(
            "insert into content_item_pipeline_state (content_item_id, pipeline, status, error_code, error_message)"
            " values (%s, %s, 'failed_terminal', %s, %s)",
            [number, stage, code, message],
        )
    empty.execute("insert into pipeline_runs (subdomain, reason) values ('town', 'test')")
    empty.execute(
        "insert into pipeline_transitions (run_id, phase, error_code, error_message)"
        " select run_id, 2, 'OperationalError', 'gone' from pipeline_runs"
    )
    state = (
        "select pipeline, error_code, error_message from content_item_pipeline_state order by content_item_id",
        "select fetch_error_code, fetch_error_message from content_items order by id",
        "select error_code, error_message from pipeline_transitions",
        "select last_error_message, updated_at from sites order by subdomain",
    )
    before = [rows(empty, query) for query in state]

    migrator.up(version)
    units, items, transitions, sites = [rows(empty, query) for query in state]
    assert [(code, message) for _, code, message in units] == list(UNITS.values())
    assert items[0] == ("InvalidPluginResult", "said")
    assert transitions == [("UnexpectedError", "OperationalError: gone")]
    assert [message for message, _ in sites] == ["KeyError: x", None, "SiteConfigError: a: b"]

    migrator.down(version - 1)
    assert [rows(empty, query) for query in state] == before
