"""clerk.pipeline_state: the helpers that scripts of legacy clerk import, without a connection."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from clerk import pipeline_state
from clerk.errors import SiteNotFound, UnknownStage
from tests.conftest import Url
from tests.engine.helpers import add_site, counters, site


@pytest.fixture
def connection(database: Url, monkeypatch: pytest.MonkeyPatch) -> psycopg.Connection:
    monkeypatch.setenv("DATABASE_URL", database)
    return psycopg.connect(database, autocommit=True)


def test_a_stage_as_a_script_does_it(connection: psycopg.Connection) -> None:
    with connection:
        add_site(connection)
        pipeline_state.initialize_stage("town", "ocr", total_jobs=2)
        pipeline_state.increment_completed("town", "ocr")
        assert not pipeline_state.should_trigger_coordinator("town", "ocr")
        pipeline_state.increment_failed("town", "ocr", error_message="no trailer", error_class="PdfReadError")
        assert counters(connection, "ocr") == (2, 1, 1)
        assert site(connection)["last_error_message"] == "PdfReadError: no trailer"
        assert pipeline_state.should_trigger_coordinator("town", "ocr")
        assert pipeline_state.claim_coordinator_enqueue("town")
        assert not pipeline_state.claim_coordinator_enqueue("town")
        assert not pipeline_state.should_trigger_coordinator("town", "ocr")


def test_an_unknown_stage_is_refused(connection: psycopg.Connection) -> None:
    with connection:
        add_site(connection)
        with pytest.raises(UnknownStage, match="orc is not a stage"):
            pipeline_state.increment_completed("town", "orc")


def test_an_unknown_site_is_refused(connection: psycopg.Connection) -> None:
    """The SQL functions change no row, and say nothing."""
    with connection:
        add_site(connection)
        calls: list[Callable[[], object]] = [
            lambda: pipeline_state.initialize_stage("nosuch", "ocr", total_jobs=2),
            lambda: pipeline_state.increment_completed("nosuch", "ocr"),
            lambda: pipeline_state.increment_failed("nosuch", "ocr", "no trailer", "PdfReadError"),
            lambda: pipeline_state.should_trigger_coordinator("nosuch", "ocr"),
            lambda: pipeline_state.claim_coordinator_enqueue("nosuch"),
        ]
        for call in calls:
            with pytest.raises(SiteNotFound, match="no site nosuch"):
                call()
