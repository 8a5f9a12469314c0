"""`clerk demo`: towns in, workers at it, archives out, and a look at what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import psycopg

from clerk import config
from clerk.archive.search import search
from clerk.cli.output import table
from clerk.cli.progress import Progress, quiet_option
from clerk.cli.search import show
from clerk.cli.wait import wait_for
from clerk.db.connection import connect
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.sites import add_site, edit_site, read_site
from clerk.demo.documents import HIDDEN_WORD, TOWNS, Town, make_all
from clerk.errors import EXIT_FAILURE, ClerkError, ToolMissing
from clerk.monitoring.overview import Progress as RunProgress
from clerk.monitoring.overview import read_failures, read_progress, read_results
from clerk.ocr import tesseract
from clerk.pipeline import engine
from clerk.publish.versions import published_archives

Connection = psycopg.Connection[Any]
OWN = "mytown"
_PATIENCE = 900.0


def add_towns(connection: Connection, documents: Path) -> list[str]:
    for town in TOWNS:
        _add(connection, town.subdomain, town.name, town.state, town.kind, documents / town.subdomain, _languages(town))
    return [town.subdomain for town in TOWNS]


def add_own(connection: Connection, folder: Path) -> list[str]:
    _add(connection, OWN, folder.name or "My town", None, "folder", folder, "eng")
    return [OWN]


def _add(
    connection: Connection, subdomain: str, name: str, state: str | None, kind: str, folder: Path, languages: str
) -> None:
    extra = json.dumps({"path": str(folder), "languages": languages, "undated": "modified"})
    values = {"name": name, "state": state, "kind": kind, "scraper": "directory", "extra": extra}
    if not add_site(connection, subdomain, values):
        edit_site(connection, subdomain, values)


def _languages(town: Town) -> str:
    """What of the town's languages tesseract can read on this machine."""
    try:
        installed = tesseract.installed_languages()
    except ToolMissing as error:
        raise ClerkError("scanned pages cannot be read here", str(error)) from error
    wanted = town.languages.split("+")
    if missing := [language for language in wanted if language not in installed]:
        packages = " ".join(f"tesseract-ocr-{language}" for language in missing)
        click.echo(f"{town.name} is read without {', '.join(missing)}: no model (Debian: apt install {packages}).")
    return "+".join(language for language in wanted if language in installed) or "eng"


@contextmanager
def workers() -> Iterator[None]:
    """Two worker processes for the length of the demonstration, besides the one that coordinates."""
    family = subprocess.Popen(
        [sys.executable, "-m", "clerk", "worker", "--processes", "3", "--log-format", "json"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        family.terminate()
        family.wait()


def run(connection: Connection, subdomains: list[str], quiet: bool) -> list[RunProgress]:
    """Start a run of each site and show how they go on until all have ended."""
    for name in subdomains:
        _start(connection, name)
    with Progress(quiet) as progress:
        return wait_for(connection, subdomains, progress, lambda one: progress.echo(str(one)), _PATIENCE)


def _start(connection: Connection, subdomain: str) -> None:
    """Unless a run is going: on the first day of a site the clock of any worker may have been quicker than we are."""
    site = read_site(connection, subdomain)
    if site is None or site.current_stage in (None, "completed"):
        engine.start_run(connection, subdomain, "demonstration")


def show_sites(connection: Connection, subdomains: list[str]) -> None:
    rows = [
        (one.subdomain, one.outcome or one.stage or "", str(one.documents), str(one.pages), str(one.failing))
        for one in read_results(connection, subdomains)
    ]
    table([("site", "outcome", "documents", "pages", "failed"), *rows])


def show_failures(connection: Connection, subdomains: list[str]) -> None:
    for failure in read_failures(connection, subdomains):
        click.echo(f"  {failure.subdomain}: {failure.document}: {failure.error_code}: {failure.error_message[:90]}")


def as_expected(progress: list[RunProgress], again: bool) -> list[str]:
    """What went otherwise than it should; empty when all is well."""
    towns = {town.subdomain: town for town in TOWNS}
    wrong = []
    for one in progress:
        town = towns.get(one.subdomain)
        wanted = {"unchanged"} if again else {town.outcome} if town else {"succeeded", "partial", "unchanged"}
        if one.outcome not in wanted:
            wrong.append(f"{one.subdomain} ended as {one.outcome}, not {' or '.join(wanted)} ({one.last_error})")
        if town and not again and one.failed != town.failures:
            wrong.append(f"{one.subdomain} has {one.failed} failed documents, not {town.failures}")
    return wrong


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@quiet_option
def demo(path: Path | None, quiet: bool) -> None:
    """Show the whole pipeline at work, on made-up towns or on a folder of your own PDFs.

    Made for `bin/demo`, which gives it a database of its own. Run it twice: the second run finds nothing to do.
    Exit code 0 only if every site ended as it should.

    \b
    Examples:
      clerk demo
      clerk demo ~/Documents/minutes
    """
    settings = config.load()
    began = time.monotonic()
    with connect(settings) as connection:
        Migrator(connection, default_folder(), settings.lock_timeout).up()
        if path is None:
            click.echo("Making the documents of five towns …")
            documents = settings.home / "documents"
            with Progress(quiet) as progress:
                count = make_all(documents, progress.counting("documents"))
            subdomains = add_towns(connection, documents)
            click.echo(f"{count} documents: digital, scanned, mixed, in two columns, in Spanish, and some broken.\n")
        else:
            subdomains = add_own(connection, path.absolute())
        again = all(read_progress(connection, [name])[0].outcome is not None for name in subdomains)
        with workers():
            ended = run(connection, subdomains, quiet)
        click.echo("\nWhat came of it:")
        show_sites(connection, subdomains)
        click.echo("\nWhat could not be read, and why:")
        show_failures(connection, subdomains)
    wrong = as_expected(ended, again and path is None)
    if path is None:
        wrong += _find_hidden_word(settings)
    click.echo(f"\n{time.monotonic() - began:.0f} seconds.")
    for sentence in wrong:
        click.echo(f"clerk: {sentence}.", err=True)
    if wrong:
        click.get_current_context().exit(EXIT_FAILURE)


def _find_hidden_word(settings: config.Settings) -> list[str]:
    click.echo(f"\nA word that exists only in a scanned picture: clerk search {HIDDEN_WORD}")
    hits = search(published_archives(settings.publish_dir), HIDDEN_WORD).hits
    for hit in hits:
        show(hit)
    return [] if [hit.subdomain for hit in hits] == ["riverton"] else [f"{HIDDEN_WORD} was not found where it stands"]
