"""Every report with --json matches its schema in docs/json, on a database and archives with contents."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import jsonschema
import psycopg
import pytest

from clerk.cli import cli, output
from clerk.documents.storage import Document, SiteStorage
from clerk.extraction import code_versions
from clerk.pipeline import engine
from clerk.publish.versions import SiteVersions
from tests.archive.vote_pages import PAGE, publish_votes
from tests.cli.conftest import Clerk
from tests.cli.test_commands import ALL, ROOT
from tests.cli.test_document import process
from tests.cli.test_progress_reporter import process_all
from tests.conftest import Url
from tests.docs.json_schemas import FOLDER, read_strict, schema_file, widen_file
from tests.engine.helpers import Worker, add_site, connect_worker, run_with
from tests.helpers import until
from tests.legacy.conftest import _redis_url as _redis_url
from tests.legacy.conftest import legacy_disk as legacy_disk
from tests.legacy.conftest import legacy_rq as legacy_rq
from tests.legacy.conftest import legacy_settings as legacy_settings
from tests.legacy.legacy_redis import LegacyRq
from tests.legacy.test_redis import broken_jobs
from tests.legacy.test_redis import legacy_jobs as legacy_jobs
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
    "clerk build-all": [["--dry-run"], []],
    "clerk db down": [["--dry-run"]],
    "clerk db maintain": [["--dry-run"]],
    "clerk db up": [["--dry-run"], []],
    "clerk failures --retry": [["--site", "failing", "--dry-run"]],
    "clerk legacy cleanup": [[]],
    "clerk migrate-stuck-sites": [["--dry-run"]],
    "clerk new": [["newtown", "--yes", "--dry-run"], ["newtown", "--yes"]],
    "clerk pause": [["town"], ["--queue", "ocr"]],
    "clerk plugins accept": [["edited", "--dry-run"], ["edited"]],
    "clerk plugins new": [["my-towns", "--dry-run"]],
    "clerk plugins record": [["folder", "--to", "recording", "--dry-run"]],
    "clerk plugins try": [["directory", "--site", "folder"]],
    "clerk purge": [["failing", "--dry-run"]],
    "clerk reconcile-pipeline": [["--dry-run", "--threshold-hours", "0"]],
    "clerk resume": [["town"], ["--queue", "ocr"]],
    "clerk retry": [["failing"]],
    "clerk cancel": [["failing"]],
    "clerk rewind": [["town", "--to", "compilation", "--dry-run"]],
    "clerk rollback": [["springfield", "--dry-run"], ["springfield"]],
    "clerk rollback --list": [["springfield"]],
    "clerk search-index build": [["--dry-run"], []],
    "clerk search-index update": [["--dry-run"], []],
    "clerk site add": [["scans", "--path", "source", "--dry-run"], ["scans", "--path", "source"]],
    "clerk site date": [["town", "a.pdf", "2024-03-05", "--dry-run"]],
    "clerk site edit": [["folder", "--name", "Scans", "--weight", "2", "--dry-run"], ["folder"]],
    "clerk site ignore": [["town", "a.pdf"]],
    "clerk site import": [["sites.csv", "--dry-run"], ["addresses.csv", "--dry-run"], ["unknown.csv", "--dry-run"]],
    "clerk site remove": [["town", "--files", "--dry-run"]],
    "clerk update": [["folder", "--dry-run"], ["folder"]],
}
"""Command, with the argument or option that makes it another report → arguments of each run. DOCUMENT and URL stand for
those of the test."""
OTHER_RUNS = {"clerk legacy redis", "clerk legacy redis --restore", "clerk update --wait"}
"""Reports with a test of their own: they need a Redis, or a worker."""
PRINTED_ELSEWHERE = {
    *(("legacy_redis", "_print_json"), ("legacy_redis", "_print_restored"), ("update", "_wait")),  # OTHER_RUNS
    ("status", "_watch"),  # until it is interrupted, the same report on one line
    ("output", "print_json_error"),
}
"""Module and function that print a report of no command of RUNS."""

CheckReport = Callable[..., None]


def reports() -> Iterator[tuple[str, click.Command]]:
    """Commands with --json."""
    plugins = cli.get_command(click.Context(cli), "plugins")
    assert plugins is not None
    for name, command in [*ALL.items(), ("clerk plugins", plugins)]:
        if "--json" in {option for parameter in command.params for option in parameter.opts}:
            yield name, command


@pytest.fixture
def check_report(clerk_command: Clerk, request: pytest.FixtureRequest) -> CheckReport:
    """Runs a command, unless what it printed is given, and compares its report with the schema."""

    def check(name: str, *arguments: str, printed: str | None = None) -> None:
        words = [*name.removesuffix(" SITE").split()[1:], *arguments, "--json"]
        report = json.loads(clerk_command(*words).out if printed is None else printed)
        assert not isinstance(report, dict) or list(report) != ["error"], words
        if request.config.getoption("--update-schemas"):
            widen_file(name, dict(reports())[_command(name)].get_short_help_str(200), report)
        jsonschema.validate(report, read_strict(schema_file(name)), jsonschema.Draft202012Validator)

    return check


def test_every_report_has_a_schema_and_is_run_here() -> None:
    names = {name for name, _ in reports()}
    documented = {*RUNS, *OTHER_RUNS}
    assert names - {name.removesuffix(" SITE") for name in documented} == set(), "without options"
    assert {_command(name) for name in documented} == names
    files = {schema_file(name) for name in documented} | {FOLDER / "error.json"}
    assert set(FOLDER.glob("*.json")) == files
    for file in files:
        jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text(encoding="utf-8")))
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in files if f"({file.name})" not in page] == []


def test_every_report_matches_its_schema(
    check_report: CheckReport,
    connection: psycopg.Connection[Any],
    database: Url,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
    printed = _record_printing_functions(monkeypatch)
    with connect_worker(database, "0123456789ab clerk 77 machine-a") as worker, run_server() as web:
        web.serve_html("/town", "<h1>Springfield</h1><a href='/2024-03-05.pdf'>Minutes of March 5, 2024</a>")
        (tmp_path / "addresses.csv").write_text(f"subdomain,url\nlinked,{web.url}/town\n", encoding="utf-8")
        places = {"DOCUMENT": _fill(connection, worker, tmp_path), "URL": f"{web.url}/town"}
        for name, runs in RUNS.items():
            for arguments in runs:
                check_report(name, *(places.get(word, word) for word in arguments))
    assert _printing_functions() - printed == PRINTED_ELSEWHERE, "a report of other options, without a schema"


def _printing_functions() -> set[tuple[str, str]]:
    """Module and name of every function of a command that prints a report."""
    return {
        (file.stem, function.name)
        for file in Path(output.__file__).parent.glob("*.py")
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "print_json"
    }


def _record_printing_functions(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Those that are called from now on."""
    called: set[tuple[str, str]] = set()

    def dumps(*values: Any, **options: Any) -> str:
        code = sys._getframe(2).f_code  # the caller of print_json
        called.add((Path(code.co_filename).stem, code.co_name))
        return json.dumps(*values, **options)

    monkeypatch.setattr(output, "json", SimpleNamespace(dumps=dumps))
    return called


@pytest.mark.usefixtures("legacy_settings", "legacy_jobs")
def test_the_reports_of_legacy_redis_match_their_schemas(
    connection: psycopg.Connection[Any], legacy_rq: LegacyRq, check_report: CheckReport
) -> None:
    broken_jobs(legacy_rq)
    legacy_rq.connection.set("rq:scheduled:ocr", "cannot be read")
    connection.execute("insert into sites (subdomain, status) values ('no run', 'deployed')")
    legacy_rq.waiting("fetch", "fetch_site_job", subdomain="no run")
    check_report("clerk legacy redis", "--dry-run")
    check_report("clerk legacy redis", "--file", "removed.jsonl")
    check_report("clerk legacy redis --restore", "removed.jsonl", "--dry-run")
    first, *rest = Path("removed.jsonl").read_text(encoding="utf-8").splitlines()
    damaged = json.loads(first)
    damaged["keys"] = dict.fromkeys(damaged["keys"], "no base64!")
    Path("removed.jsonl").write_text("\n".join([json.dumps(damaged), *rest]), encoding="utf-8")
    check_report("clerk legacy redis --restore", "removed.jsonl")


def test_the_report_of_runs_that_ended_matches_its_schema(
    connection: psycopg.Connection[Any], database: Url, check_report: CheckReport
) -> None:
    for site in ("shelbyville", "springfield"):
        add_site(connection, site, documents=1)
    command = [sys.executable, "-m", "clerk", "update", "shelbyville", "springfield", "--wait", "--json"]
    with (
        subprocess.Popen(
            command,
            env={**os.environ, "DATABASE_URL": database, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
        connect_worker(database, "0123456789ab clerk 77 machine-a") as worker,
    ):
        until(lambda: connection.execute("select 1 from sites where run_id is not null").fetchone(), 200)
        worker.finish(worker.take("fetch"), "failed", "HostNotFound", "there is no such host")
        process_all(worker)
        printed, _ = process.communicate()
    check_report("clerk update --wait", printed=printed)


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
    (folder / "unknown.csv").write_text("subdomain,url\nthird,\n", encoding="utf-8")
    archive = publish_votes(folder / "published", "springfield", PAGE)
    SiteVersions(folder / "published", "springfield").publish(archive, keep=2)
    for code in ("before", "after"):
        code_versions.record_use(connection, "edited", "1", "a_plugin", code)
    row = connection.execute(
        "insert into content_items (subdomain, kind, meeting, date) values ('folder', 'minutes', 'City Council', %s)"
        " returning id",
        [date(2024, 3, 5)],
    ).fetchone()
    assert row is not None
    document = Document(row[0], "folder", "minutes", "City Council", date(2024, 3, 5))
    process(SiteStorage(folder / "storage", "folder"), document, pdfs.digital(1))
    return str(document.id)
