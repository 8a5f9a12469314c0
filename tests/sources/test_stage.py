"""The fetch stage in a real worker, with failing plugins and with the example plugin."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import psycopg
import pytest

from clerk.app import create_app
from clerk.documents.skipped import SkippedEntry, record_skipped
from clerk.documents.storage import SiteStorage
from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_state
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.publish.deployer_calls import deployer_calls
from tests.sources.conftest import Work
from tests.sources.web import Reply, Web, pdf

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "clerk_example"


def start(
    connection: psycopg.Connection[Any], scraper: str | None, extra: dict[str, Any] | str, site: str = "town"
) -> int:
    text = extra if isinstance(extra, str) else json.dumps(extra)
    connection.execute(
        "insert into sites (subdomain, name, scraper, extra) values (%s, %s, %s, %s)", [site, site, scraper, text]
    )
    return engine.start_run(connection, site)


def unit(connection: psycopg.Connection[Any], site: str = "town") -> tuple[Any, ...]:
    row = connection.execute(
        """
        select l.status, l.error_code, l.error_message from content_item_pipeline_state l
        join content_items i on i.id = l.content_item_id
        where i.subdomain = %s and l.pipeline = 'fetch'
        """,
        [site],
    ).fetchone()
    assert row is not None
    return tuple(row)


def test_a_site_is_fetched_and_the_next_phase_begins(
    connection: psycopg.Connection[Any], web: Web, work: Work, tmp_path: Path
) -> None:
    web.routes["/m.csv"] = Reply(b"url,meeting,date\na.pdf,Council,2024-01-01\nb.pdf,Council,2024-01-02\n")
    web.serve_pdf("/a.pdf", "a")
    web.serve_html("/b.pdf", "<html>gone</html>")
    start(connection, "manifest", {"url": f"{web.url}/m.csv"})
    work("fetch")
    assert unit(connection)[0] == "processed"
    assert connection.execute("select progress, progress_total from job_claims").fetchall() == [(2, 2)]
    assert (tmp_path / "storage/town/pdfs/Council/2024-01-01.pdf").read_bytes() == pdf("a")
    work("coordinator")
    assert connection.execute("select current_stage, ocr_total from sites").fetchone() == ("ocr", 2)
    work("ocr")
    failing = connection.execute("select stage, date::text, error_code from failing_documents order by date").fetchall()
    assert ("ocr", "2024-01-02", "NotAPdf") in failing
    assert connection.execute("select * from invariant_violations").fetchall() == []


def scans(folder: Path, *names: str) -> dict[str, str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(pdf("a"))
    return {"path": str(folder)}


SKIPPED = "select run_id, skipped, skipped_examples from run_history order by run_id"


def test_skipped_entries_are_stored_with_the_run(
    connection: psycopg.Connection[Any], work: Work, tmp_path: Path
) -> None:
    folder = tmp_path / "scans"
    run = start(connection, "directory", scans(folder, "Council/2024-01-01.pdf", "Council/draft.pdf", "a.pdf"))
    work("fetch")
    assert unit(connection)[0] == "processed"
    ((run_id, count, reasons),) = connection.execute(SKIPPED).fetchall()
    assert (run_id, count) == (run, 2)
    unreadable = "has no date in its name, and its first page cannot be read (poppler: Couldn't read xref table)"
    assert sorted(reasons) == [f"Council/draft.pdf {unreadable}", f"a.pdf {unreadable}"]

    (folder / "Council/draft.pdf").rename(folder / "Council/draft 2024-01-02.pdf")
    (folder / "a.pdf").unlink()
    newer = engine.start_run(connection, "town", supersede=True)
    work("fetch")
    assert connection.execute(SKIPPED).fetchall() == [(run, 2, reasons), (newer, 0, None)]


def test_a_source_whose_entries_are_all_skipped_fails(
    connection: psycopg.Connection[Any], work: Work, tmp_path: Path
) -> None:
    start(connection, "directory", scans(tmp_path / "scans", "a.pdf", "b.pdf"))
    work("fetch")
    work("coordinator")
    work("coordinator")  # again for the OCR phase, which has no units
    facts = read_site_state(connection, "town")
    assert facts is not None
    answer = explain(facts)
    assert answer.because == "failed"
    assert answer.remedy is not None
    assert answer.remedy.startswith("see why: clerk site skipped town; give dates: clerk site date town FILE DATE")
    assert "EntriesSkipped: all 2 entries of the listing were skipped; the first: " in answer.sentence
    (evidence,) = (line for line in answer.evidence if line.startswith("2 entries of the source were skipped: "))
    assert "a.pdf has no date in its name, and its first page cannot be read" in evidence
    assert "b.pdf has no date in its name, and its first page cannot be read" in evidence


def test_skip_reasons_are_cleaned_shortened_and_stored_per_run(connection: psycopg.Connection[Any]) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    older = engine.start_run(connection, "town")
    newer = engine.start_run(connection, "town", supersede=True)
    record_skipped(connection, "town", newer, 1, [SkippedEntry("first")], True)
    many = [SkippedEntry(f"{n}\0\udcff{'x' * 400}") for n in range(25)]
    record_skipped(connection, "town", older, 25, many, True)
    (run, count, reasons), after = connection.execute(SKIPPED).fetchall()
    assert (run, count, len(reasons)) == (older, 25, 20)
    assert reasons[19] == f"19 {'x' * 297}"
    assert after == (newer, 1, ["first"])
    record_skipped(connection, "town", newer, 0, [], True)
    assert connection.execute(SKIPPED).fetchall()[1] == (newer, 0, None)


FAILING_PLUGINS = {
    "raises": (
        "async def documents(self): raise KeyError('id'); yield",
        "PluginProgrammingError",
        "line 4,",
    ),
    "exits": ("async def documents(self): raise SystemExit(1); yield", "PluginRaised", "SystemExit"),
    "hangs": ("async def documents(self): import time; time.sleep(60); yield", "PluginTimeout", "within 10 s"),
    "waits": (
        "async def documents(self): import asyncio; await asyncio.sleep(60); yield",
        "PluginTimeout",
        "within 10 s",
    ),
    "lies": ("async def documents(self): yield 'a document'", "InvalidPluginResult", "not a DocumentRef"),
    "lists": ("def documents(self): return []", "InvalidPluginResult", "not an async generator"),
    "unmade": ("def __init__(self): pass", "PluginProgrammingError", "TypeError"),
}


def test_failing_plugins_fail_their_own_units_and_the_worker_continues(
    connection: psycopg.Connection[Any], web: Web, work: Work, plugins: Path
) -> None:
    for name, (body, *_) in FAILING_PLUGINS.items():
        (plugins / f"{name}.py").write_text(
            "from clerk import Fetcher, hookimpl\n\n"
            f"class Failing(Fetcher):\n    {body}\n\n"
            f"@hookimpl\ndef fetcher_class(label):\n    return Failing if label == '{name}' else None\n"
        )
        start(connection, name, {}, site=name)
    web.routes["/m.csv"] = Reply(b"url,meeting,date\n")
    start(connection, "manifest", {"url": f"{web.url}/m.csv"}, site="good")
    work("fetch")
    assert unit(connection, "good")[0] == "processed"
    for name, (_, code, expected) in FAILING_PLUGINS.items():
        status, error_code, message = unit(connection, name)
        assert (name, error_code) == (name, code)
        assert f"plugin {name}" in message
        assert expected in message
        permanent = code in ("InvalidPluginResult", "PluginProgrammingError")
        assert status == ("failed_terminal" if permanent else "failed_retryable")


@pytest.mark.parametrize(
    ("scraper", "extra", "code"),
    [
        (None, {}, "SiteConfigError"),
        ("legistar", {}, "SiteConfigError"),
        ("legistar", "{broken", "SiteConfigError"),
        ("legistar", "[1]", "SiteConfigError"),
        ("unknown", {}, "PluginMissing"),
        ("manifest", {"url": "http://10.0.0.1/none"}, "AddressForbidden"),
        ("directory", {"path": "/no/such/folder"}, "LocalPathMissing"),
    ],
)
def test_a_site_that_cannot_be_fetched_fails_with_a_code(
    connection: psycopg.Connection[Any], work: Work, scraper: str | None, extra: dict[str, Any] | str, code: str
) -> None:
    start(connection, scraper, extra)
    work("fetch")
    assert unit(connection)[:2] == ("failed_terminal", code)


def test_an_unavailable_source_is_retried(connection: psycopg.Connection[Any], web: Web, work: Work) -> None:
    web.routes["/m.csv"] = Reply(b"", 503, {"Retry-After": "86400"})
    start(connection, "manifest", {"url": f"{web.url}/m.csv"})
    work("fetch")
    assert unit(connection)[:2] == ("failed_retryable", "DownloadFailed")


def test_waiting_for_a_host_does_not_count_as_hanging(
    connection: psycopg.Connection[Any], web: Web, work: Work
) -> None:
    replies = iter([Reply(b"", 503, {"Retry-After": "3"}), Reply(b"url,meeting,date\n")])
    web.routes["/m.csv"] = lambda request: next(replies)
    start(connection, "manifest", {"url": f"{web.url}/m.csv"})
    work("fetch")
    assert unit(connection)[0] == "processed"


def test_the_example_plugin_implements_every_hook(
    connection: psycopg.Connection[Any],
    web: Web,
    work: Work,
    plugins: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLERK_EXAMPLE_FOLDER", str(tmp_path / "example"))
    (plugins / "clerk_example.py").write_text((EXAMPLE / "clerk_example.py").read_text())
    meetings = [
        {"id": 1, "board": "Council", "day": "2024-01-01", "minutes": "/1.pdf", "agenda": "/1a.pdf", "edition": 1},
        {"id": 2, "board": "Parks", "day": "2024-01-02", "minutes": "/2.pdf"},
        {"id": 3, "board": "Parks", "day": "soon", "minutes": "/3.pdf"},
    ]
    web.serve_json("/meetings.json", meetings)
    for path in ("/1.pdf", "/1a.pdf", "/2.pdf"):
        web.serve_pdf(path, path)
    start(connection, "example", {"portal": web.url})
    work("fetch")
    assert unit(connection)[0] == "processed"
    rows = connection.execute(
        "select meeting, kind from content_items where kind <> 'archive' order by 1, 2"
    ).fetchall()
    assert rows == [("Council", "agenda"), ("Council", "minutes"), ("Parks", "minutes")]

    loaded = manager.load(create_app().connector.settings)  # type: ignore[attr-defined]
    assert loaded.problems == []
    (example,) = [plugin for plugin in loaded.loaded if plugin.name == "clerk_example"]
    assert len(example.hooks) == 11
    _call_the_other_hooks(loaded, tmp_path / "storage", tmp_path / "example")


def _call_the_other_hooks(loaded: manager.Plugins, storage: Path, output: Path) -> None:
    import sqlite3

    database = storage / "town" / "meetings.db"
    with sqlite3.connect(database) as archive:
        archive.executescript("create table minutes (id); create table agendas (id); insert into minutes values (1);")
    archive.close()
    folder = output / "town"
    list(loaded.call_each("post_create", subdomain="town"))
    list(loaded.call_each("pre_compilation", subdomain="town", run_id=1))
    list(loaded.call_each("post_compilation", subdomain="town", database_path=database, run_id=1))
    assert (folder / "pages.txt").read_text() == "1 pages after run 1\n"
    calls = deployer_calls(loaded, SiteStorage(storage, "town"), check_claim=lambda: None)
    assert calls["clerk_example"]() == str(folder / "meetings.db")
    list(loaded.call_each("upload_static_file", file_path=database, storage_path="/a/b.db"))
    assert (output / "static/a/b.db").is_file()
    list(loaded.call_each("post_deploy", site={"subdomain": "town", "name": "Town"}))
    assert (folder / "announced.txt").is_file()
    _, extractor = loaded.resolve("extractor", "example")
    assert extractor.extract([(1, "MAYOR Quimby")]) == {1: {"persons": [{"text": "Mayor", "confidence": 0.1}]}}


def test_a_cancelled_fetch_stops(
    connection: psycopg.Connection[Any], web: Web, work: Work, plugins: Path, tmp_path: Path
) -> None:
    """If the run is cancelled while the plugin waits for its source, the job ends and so does the plugin's task."""
    (plugins / "slow.py").write_text(
        dedent(
            f"""
            import asyncio
            from pathlib import Path
            from clerk import Fetcher, hookimpl

            class Slow(Fetcher):
                async def documents(self):
                    page = await self.client.get("{web.url}/cancel")
                    try:
                        while True:
                            self.client.heartbeat()
                            await asyncio.sleep(0.05)
                    finally:
                        Path({str(tmp_path / "stopped")!r}).touch()
                    yield

            @hookimpl
            def fetcher_class(label):
                return Slow if label == "slow" else None
            """
        )
    )

    def cancel(request: Any) -> Reply:
        with psycopg.connect(connection.info.dsn, autocommit=True) as other:
            engine.cancel_run(other, "town")
        return Reply(b"{}")

    web.routes["/cancel"] = cancel
    start(connection, "slow", {})

    async def work_until_aborted() -> None:
        app = create_app()
        async with app.open_async():
            worker = asyncio.create_task(app.run_worker_async(queues=["fetch"], install_signal_handlers=False))
            # A worker with wait=False does not poll for aborted jobs, so this one runs until the job has ended.
            running = "select 1 from procrastinate_jobs where queue_name = 'fetch' and status in ('todo', 'doing')"
            while connection.execute(running).fetchone():
                await asyncio.sleep(0.05)
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    asyncio.run(work_until_aborted())
    assert unit(connection)[:2] == ("failed_terminal", "RunCancelled")
    assert (tmp_path / "stopped").exists()
