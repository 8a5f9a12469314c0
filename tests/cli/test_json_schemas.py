"""Every report with --json matches its schema in docs/json, on a database and archives with contents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import click
import jsonschema
import psycopg
import pytest

from clerk.cli import cli
from clerk.documents.storage import Document, SiteStorage
from clerk.pipeline import engine
from tests.archive.vote_pages import PAGE, publish_votes
from tests.cli.conftest import Clerk
from tests.cli.test_commands import ALL
from tests.cli.test_document import process
from tests.conftest import Url
from tests.docs.json_schemas import FOLDER, read_strict, schema_file, widen_file
from tests.engine.helpers import Worker, add_site, connect_worker, run_with
from tests.monitoring.workers import register
from tests.ocr import pdfs
from tests.sources.web import run_server

RUNS: dict[str, list[list[str]]] = {
    "clerk alert list": [[]],
    "clerk config": [[]],
    "clerk db status": [[]],
    "clerk db url": [[]],
    "clerk db verify": [[]],
    "clerk doctor": [[]],
    "clerk document pdf": [["DOCUMENT", "-o", "out.pdf"]],
    "clerk failures": [[], ["--site", "failing"]],
    "clerk legacy inspect": [[]],
    "clerk metrics": [[]],
    "clerk pipeline-status": [[]],
    "clerk pipeline-status SITE": [["town"]],
    "clerk plugins": [[]],
    "clerk plugins --fetcher": [["legistar"]],
    "clerk search": [["bike"], ["motion", "--site", "springfield"], ["nothing-of-that-kind"]],
    "clerk search-index status": [[]],
    "clerk site check": [["folder"]],
    "clerk site detect": [["URL"]],
    "clerk site export": [[]],
    "clerk site list": [[]],
    "clerk site show": [["town"], ["folder"]],
    "clerk site skipped": [["town"]],
    "clerk status": [[]],
    "clerk status SITE": [["town"], ["failing", "--all"]],
    "clerk verify": [[], ["--no-files"]],
    "clerk votes export": [[]],
    "clerk why": [["town"], ["failing"]],
    # Commands that change something: the order matters.
    "clerk alert add": [["more", "tree", "--site", "town", "--feed", "--dry-run"]],
    "clerk alert pause": [["bikes"]],
    "clerk alert remove": [["bikes", "--dry-run"]],
    "clerk alert resume": [["bikes"]],
    "clerk alert test": [["bikes", "--dry-run"]],
    "clerk build-all": [["--dry-run"]],
    "clerk db down": [["--dry-run"]],
    "clerk db maintain": [["--dry-run"]],
    "clerk db up": [["--dry-run"], []],
    "clerk legacy cleanup": [[]],
    "clerk migrate-stuck-sites": [["--dry-run"]],
    "clerk new": [["newtown", "--yes", "--dry-run"], ["newtown", "--yes"]],
    "clerk pause": [["town"], ["--queue", "ocr"]],
    "clerk plugins new": [["my-towns", "--dry-run"]],
    "clerk plugins record": [["folder", "--to", "recording", "--dry-run"]],
    "clerk plugins try": [["directory", "--site", "folder"]],
    "clerk purge": [["failing", "--dry-run"]],
    "clerk reconcile-pipeline": [["--dry-run", "--threshold-hours", "0"]],
    "clerk resume": [["town"], ["--queue", "ocr"]],
    "clerk retry": [["failing"]],
    "clerk cancel": [["failing"]],
    "clerk rewind": [["town", "--to", "compilation", "--dry-run"]],
    "clerk rollback --list": [["springfield"]],
    "clerk search-index build": [["--dry-run"], []],
    "clerk search-index update": [["--dry-run"]],
    "clerk site add": [["scans", "--path", "source", "--dry-run"], ["scans", "--path", "source"]],
    "clerk site date": [["town", "a.pdf", "2024-03-05", "--dry-run"]],
    "clerk site edit": [["folder", "--name", "Scans", "--dry-run"]],
    "clerk site ignore": [["town", "a.pdf"]],
    "clerk site import": [["sites.csv", "--dry-run"]],
    "clerk site remove": [["town", "--files", "--dry-run"]],
    "clerk update": [["folder", "--dry-run"], ["folder"]],
}
"""Command, with the argument or option that makes it another report → arguments of each run. DOCUMENT and URL stand for
those of the test."""
WITHOUT_SCHEMA = {"clerk legacy redis": "needs Redis", "clerk plugins accept": "needs an edited extractor"}
"""Command → why it is not run here."""


def reports() -> Iterator[tuple[str, click.Command]]:
    """Commands with --json."""
    plugins = cli.get_command(click.Context(cli), "plugins")
    assert plugins is not None
    for name, command in [*ALL.items(), ("clerk plugins", plugins)]:
        options = {option for parameter in command.params for option in parameter.opts}
        if "--json" in options and name not in WITHOUT_SCHEMA:
            yield name, command


def test_every_report_has_a_schema_and_is_run_here() -> None:
    names = {name for name, _ in reports()}
    assert {_command(run) for run in RUNS} == names
    files = {schema_file(name) for name in RUNS} | {FOLDER / "error.json"}
    assert set(FOLDER.glob("*.json")) == files
    for file in files:
        jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text(encoding="utf-8")))
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in files if f"({file.name})" not in page] == []


def test_every_report_matches_its_schema(
    clerk_command: Clerk,
    connection: psycopg.Connection[Any],
    database: Url,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    settings = {
        "DATABASE_URL": database,
        "STORAGE_DIR": str(tmp_path / "storage"),
        "CLERK_PUBLISH_DIR": str(tmp_path / "published"),
        "CLERK_ALLOW_LOOPBACK": "yes",
        "CLERK_HOST_INTERVAL": "0",
    }
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value)
    with connect_worker(database, "0123456789ab clerk 77 machine-a") as worker, run_server() as web:
        web.serve_html("/town", "<h1>Springfield</h1><a href='/2024-03-05.pdf'>Minutes of March 5, 2024</a>")
        places = {"DOCUMENT": _fill(connection, worker, tmp_path), "URL": f"{web.url}/town"}
        for name, runs in RUNS.items():
            for arguments in runs:
                given = [places.get(word, word) for word in arguments]
                words = [*name.removesuffix(" SITE").split()[1:], *given, "--json"]
                result = clerk_command(*words)
                report = json.loads(result.out)
                assert not isinstance(report, dict) or list(report) != ["error"], words
                if request.config.getoption("--update-schemas"):
                    widen_file(name, dict(reports())[_command(name)].get_short_help_str(200), report)
                jsonschema.validate(report, read_strict(schema_file(name)), jsonschema.Draft202012Validator)


def _command(name: str) -> str:
    """`clerk status SITE` → `clerk status`"""
    return " ".join(word for word in name.split() if not word.isupper() and not word.startswith("-"))


def test_an_error_matches_its_schema(clerk_command: Clerk) -> None:
    schema = read_strict(FOLDER / "error.json")
    for arguments in (["status"], ["config", "--nonsense"]):
        result = clerk_command(*arguments, "--json")
        jsonschema.validate(json.loads(result.out), schema, jsonschema.Draft202012Validator)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"error": {"code": "x"}}, schema)


def _fill(connection: psycopg.Connection[Any], worker: Worker, folder: Path) -> str:
    """Sites of several states, a worker, alerts and archives. Returns the id of a document that can be exported."""
    register(worker, "ocr", "coordinator")
    add_site(connection, "town", documents=2)
    run_with(worker)
    add_site(connection, "failing", documents=2)
    engine.start_run(connection, "failing", first_phase=2)
    job = worker.take("ocr")
    worker.finish(job, "failed", "PdfEncrypted", "the document opens only with a password")
    engine.pause_site(connection, "failing", "tests")
    engine.pause_queue(connection, "delivery", "tests")
    source = folder / "source"
    source.mkdir()
    (source / "2024-03-05 Council.pdf").write_bytes(pdfs.digital(1))
    extra = json.dumps({"path": str(source)})
    connection.execute(
        "insert into sites (subdomain, name, state, scraper, extra) values ('folder', 'Folder', 'CA', 'directory', %s)",
        [extra],
    )
    connection.execute(
        "insert into saved_searches (name, query, created_by) values ('bikes', '\"bike lanes\"', 'tests')"
    )
    connection.execute(
        "insert into skipped_entries (subdomain, source_key, name, reason_code, reason)"
        " values ('town', 'a.pdf', 'a.pdf', 'NoDate', 'a.pdf has no date')"
    )
    connection.execute("insert into sites (subdomain, name) values ('springfield', 'Springfield')")
    (folder / "sites.csv").write_text("subdomain,name\nsecond,Second\n", encoding="utf-8")
    publish_votes(folder / "published", "springfield", PAGE)
    row = connection.execute(
        "insert into content_items (subdomain, kind, meeting, date) values ('folder', 'minutes', 'City Council', %s)"
        " returning id",
        [date(2024, 3, 5)],
    ).fetchone()
    assert row is not None
    document = Document(row[0], "folder", "minutes", "City Council", date(2024, 3, 5))
    process(SiteStorage(folder / "storage", "folder"), document, pdfs.digital(1))
    return str(document.id)
