"""`clerk demo`: runs the whole pipeline on generated documents, or on a folder of PDFs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from clerk import config
from clerk.archive.content_hash import open_readonly
from clerk.archive.pages import existing_tables
from clerk.archive.query import parse
from clerk.archive.search import SearchRequest
from clerk.cli.connection import Connection, open_migrator
from clerk.cli.names import NameChoice
from clerk.cli.output import line, show, table
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.cli.search import print_hit
from clerk.cli.site_source import list_local, show_listing
from clerk.cli.source import LISTING_SECONDS
from clerk.cli.wait import wait_for_runs
from clerk.db.sites import add_site, edit_site, read_site
from clerk.demo.documents import HIDDEN_WORD, TOWNS, Town, make_all
from clerk.documents.sanitize import clean_text
from clerk.errors import EXIT_FAILURE, ClerkError, ToolMissing
from clerk.humanize import one_line_error, pluralize, source_file
from clerk.monitoring.runs import RunProgress, read_progress
from clerk.monitoring.site_state import read_site_history
from clerk.ocr import tesseract
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.publish.published_search import search_published
from clerk.publish.versions import published_archives
from clerk.sources.fetcher import Site
from clerk.sources.pdf_details import UNDATED, UNDATED_HELP
from clerk.sources.site_validation import subdomain_of, validate_site

_OWN_SITE = "mytown"
"""The site of a folder whose name has no letters."""
_TIMEOUT = 900.0
_PAGES = "select text from TABLE limit ?"
_MAX_PAGES = 200
_MIN_LETTERS = 7
"""Of the word that is searched in a folder: shorter ones are mostly articles and prepositions."""
_MAX_HITS = 3


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--undated", type=NameChoice("choice", UNDATED), default="skip", help=f"With PATH: {UNDATED_HELP}.")
@click.option("--command", default="clerk", hidden=True, help="How `clerk` is called with the database of the demo.")
@quiet_option
def demo(path: Path | None, undated: str, command: str, quiet: bool) -> None:
    """Run the pipeline on samples, or on a folder of documents.

    The sample documents are generated for five towns. A folder becomes a site as with `clerk site add --path`.
    `bin/demo` runs the command with its own database. A second run finds no new documents. Exit code 0 if every site
    ended with the expected outcome.

    \b
    Examples:
      clerk demo
      clerk demo ~/Documents/minutes
      clerk demo ~/Documents/scans --undated modified
    """
    settings = config.load()
    own = _look_at_folder(settings, path, undated, quiet) if path is not None else None
    began = time.monotonic()
    with open_migrator(settings, log=lambda line: None, create=True) as migrator:
        migrator.up()
        connection = migrator.connection
        if own is None:
            click.echo("Generating the documents of five towns …")
            documents = settings.home / "documents"
            with ProgressReporter(quiet) as progress:
                count = make_all(documents, progress.callback("documents"))
            subdomains = _add_towns(connection, documents)
            click.echo(f"{count} documents: digital, scanned, mixed, in two columns, in Spanish, and some broken.\n")
        else:
            subdomains = [own.subdomain]
            _add_folder(settings, connection, own)
        repeated = all(run.outcome is not None for run in read_progress(connection, subdomains))
        with _workers() as check_workers:
            ended = _run(connection, subdomains, quiet, check_workers, command)
        _show_results(connection, ended)
    problems = _unexpected(ended, repeated and own is None)
    if own is None:
        problems += _search_hidden_word(settings)
        query = "'\"bike lanes\"'"
    else:
        query = _search_frequent_word(settings, own.subdomain)
    click.echo(f"\nDone in {time.monotonic() - began:.0f} s.")
    _show_next_steps(command, query)
    for problem in problems:
        click.echo(f"clerk: {problem}.", err=True)
    if problems:
        click.get_current_context().exit(EXIT_FAILURE)


def _look_at_folder(settings: config.Settings, path: Path, undated: str, quiet: bool) -> Site:
    """The folder as a site, like one of `clerk site add --path`. Shows what it has; raises InvalidSite if nothing."""
    name = clean_text(path.absolute().name) or "My town"
    subdomain = subdomain_of(name) or _OWN_SITE
    if subdomain in {town.subdomain for town in TOWNS}:
        subdomain = f"my-{subdomain}"  # the database may have the generated towns too
    extra = {"path": str(path.absolute()), **({} if undated == "skip" else {"undated": undated})}
    site = Site(subdomain, name, extra)
    listing = list_local(settings, site, "directory", path.absolute(), LISTING_SECONDS, quiet)
    show_listing(listing, path, all_reasons=True)
    click.echo("")
    return site


def _add_folder(settings: config.Settings, connection: Connection, site: Site) -> None:
    values = {"name": site.name, "scraper": "directory", "extra": json.dumps(dict(site.extra), ensure_ascii=False)}
    validated = validate_site(manager.load(settings), site.subdomain, values, {})
    if not add_site(connection, site.subdomain, validated.values):
        edit_site(connection, site.subdomain, validated.values)


def _add_towns(connection: Connection, documents: Path) -> list[str]:
    for town in TOWNS:
        folder = documents / town.subdomain
        _add_site(connection, town.subdomain, town.name, town.state, town.kind, folder, _languages(town))
    return [town.subdomain for town in TOWNS]


def _add_site(
    connection: Connection, subdomain: str, name: str, state: str | None, kind: str, folder: Path, languages: str
) -> None:
    extra = json.dumps({"path": str(folder), "languages": languages, "undated": "modified"})
    values = {"name": name, "state": state, "kind": kind, "scraper": "directory", "extra": extra}
    if not add_site(connection, subdomain, values):
        edit_site(connection, subdomain, values)


def _languages(town: Town) -> str:
    """The languages of the town for which tesseract has a model on this machine."""
    try:
        installed = tesseract.installed_languages()
    except ToolMissing as error:
        raise ClerkError("OCR is not available on this machine", str(error)) from error
    languages = town.languages.split("+")
    if missing := [language for language in languages if language not in installed]:
        packages = " ".join(f"tesseract-ocr-{language}" for language in missing)
        click.echo(f"OCR of {town.name} without {', '.join(missing)}: no model (Debian: apt install {packages}).")
    return "+".join(language for language in languages if language in installed) or "eng"


@contextmanager
def _workers() -> Iterator[Callable[[], None]]:
    """Three worker processes: one for coordination, two for OCR. The function raises if the supervisor has ended."""
    with tempfile.TemporaryFile("w+") as errors:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "clerk", "worker", "--processes", "3", "--log-format", "json"],
            stdin=subprocess.DEVNULL,
            stderr=errors,
        )

        def check() -> None:
            if supervisor.poll() is not None:
                errors.seek(0)
                last = (errors.read().splitlines() or [f"exit code {supervisor.returncode}"])[-1]
                raise ClerkError("the workers ended", last.removeprefix("clerk: ").removesuffix("."))

        try:
            yield check
        finally:
            supervisor.terminate()
            supervisor.wait()


def _run(
    connection: Connection, subdomains: list[str], quiet: bool, check_workers: Callable[[], None], command: str
) -> list[RunProgress]:
    for subdomain in subdomains:
        # A worker may have started the run of a new site already.
        site = read_site(connection, subdomain)
        if site is None or site.current_stage in (None, "completed"):
            engine.start_run(connection, subdomain, "demonstration")
    with ProgressReporter(quiet) as progress:
        return wait_for_runs(
            connection, subdomains, progress, lambda run: progress.echo(run.describe(command)), _TIMEOUT, check_workers
        )


def _show_results(connection: Connection, ended: list[RunProgress]) -> None:
    histories = {run.subdomain: read_site_history(connection, run.subdomain, everything=True) for run in ended}
    rows = []
    for run in ended:
        counts = histories[run.subdomain].counts
        numbers = [str(counts[name]) for name in ("documents", "pages", "failed")]
        rows.append((run.subdomain, run.outcome or run.stage or "", *numbers))
    click.echo("\nResults:")
    show(table(rows, ("site", "outcome", "documents", "pages", "failed"), right={2, 3, 4}))
    if any(document["error_code"] for history in histories.values() for document in history.documents):
        click.echo("\nFailed documents:")
    for subdomain, history in histories.items():
        for document in history.documents:
            if document["error_code"]:
                error = one_line_error(document["error_code"], document["error_message"])
                show(line(f"  {subdomain}: {source_file(document['source_url'])}: {error}"))


def _unexpected(ended: list[RunProgress], repeated: bool) -> list[str]:
    """The runs that did not end as expected."""
    towns = {town.subdomain: town for town in TOWNS}
    problems = []
    for run in ended:
        town = towns.get(run.subdomain)
        expected = {"unchanged"} if repeated else {town.outcome} if town else {"succeeded", "partial", "unchanged"}
        if run.outcome not in expected:
            outcomes = " or ".join(sorted(expected))
            problems.append(f"{run.subdomain} ended as {run.outcome}, not {outcomes} ({run.last_error})")
        if town and not repeated and run.failed != town.failures:
            problems.append(f"{run.subdomain} has {pluralize(run.failed, 'failed document')}, not {town.failures}")
    return problems


def _search_hidden_word(settings: config.Settings) -> list[str]:
    click.echo(f"\nSearch for a word that exists only in a scanned image: {HIDDEN_WORD}")
    hits = search_published(settings.publish_dir, SearchRequest(parse(HIDDEN_WORD))).hits
    for hit in hits:
        print_hit(hit)
    if [hit.subdomain for hit in hits] == ["riverton"]:
        return []
    return [f"the word {HIDDEN_WORD} was not found in the archive of riverton"]


def _search_frequent_word(settings: config.Settings, subdomain: str) -> str:
    """Search the archive of a folder for a word that it has. Returns the word; empty if nothing was published."""
    words: Counter[str] = Counter()
    for _, database in published_archives(settings.publish_dir, subdomain):
        with open_readonly(database) as archive:
            for table_name in existing_tables(archive):
                for (text,) in archive.execute(_PAGES.replace("TABLE", table_name), [_MAX_PAGES]):
                    words.update(re.findall(rf"\b[^\W\d_]{{{_MIN_LETTERS},}}\b", text.lower()))
    if not words:
        return ""
    word = words.most_common(1)[0][0]
    click.echo(f"\nSearch for a word of the documents: {word}")
    for hit in search_published(settings.publish_dir, SearchRequest(parse(word)), subdomain).hits[:_MAX_HITS]:
        print_hit(hit)
    return word


def _show_next_steps(command: str, query: str) -> None:
    click.echo("\nTo continue with the same database:")
    steps = [*([f"search {query}"] if query else []), "status", "dashboard", "serve"]
    for step in steps:
        click.echo(f"  {command} {step}")
    click.echo(f'  psql "$({command} db url)"')
