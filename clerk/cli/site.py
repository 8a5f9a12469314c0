"""`clerk site`: the sites, who they are and where their documents come from."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import psycopg

from clerk import config
from clerk.cli.output import dry_run_option, info, json_option, print_json, table
from clerk.db.audit import set_actor
from clerk.db.connection import connect
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.db.sites import EDITABLE, SiteRow, add_site, count_documents, edit_site, read_site, read_sites, remove_site
from clerk.documents.storage import SiteStorage
from clerk.errors import EXIT_FAILURE, ClerkError, PluginFailed, PluginRaised, PluginTimeout, SiteNotFound
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.sources.site_validation import InvalidSite, ValidatedSite, check_subdomain, read_import, validate_site

Connection = psycopg.Connection[Any]
Command = TypeVar("Command", bound=Callable[..., Any])


@contextmanager
def _database(settings: config.Settings) -> Iterator[Connection]:
    with connect(settings) as connection:
        # Nobody has to know that there is a database, to say where a town's documents are.
        if settings.database_url is None and read_state(connection).kind == "empty":
            info(f"Making a database under {settings.home} …")
            Migrator(connection, default_folder(), settings.lock_timeout).up()
        require_known_schema(connection, default_folder())
        set_actor(connection, "cli")
        yield connection


def _columns(command: Command) -> Command:
    """The options that describe a site."""
    for option in (
        click.option("--lng", help="Longitude in degrees."),
        click.option("--lat", help="Latitude in degrees."),
        click.option("--country", help="Such as US."),
        click.option("--extra", help="JSON for the fetcher; `clerk plugins --fetcher NAME` says what goes in."),
        click.option("--start-year", help="Nothing older is fetched."),
        click.option("--scraper", help="The fetcher: directory, manifest, links, legistar, civicplus, primegov, …"),
        click.option("--kind", help="Such as city, county or school-board."),
        click.option("--state", help="Such as CA."),
        click.option("--name", help="As people call it."),
    ):
        command = option(command)
    return command


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {column: value for column, value in values.items() if column in EDITABLE and value is not None}


def _known(connection: Connection, subdomain: str) -> SiteRow:
    row = read_site(connection, subdomain)
    if row is None:
        raise SiteNotFound(f"there is no site {subdomain[:80]}")
    return row


def _would(dry_run: bool, sentence: str) -> str:
    return f"(dry run, nothing was done) {sentence}" if dry_run else sentence


@click.group()
def site() -> None:
    """Add, list, show, edit, remove and import sites.

    A subdomain is the key of a site: 1 to 63 lower-case letters, digits, dots and hyphens, with a letter or
    digit at both ends.
    """


@site.command()
@click.argument("subdomain")
@_columns
@dry_run_option
@json_option
def add(subdomain: str, dry_run: bool, as_json: bool, **values: Any) -> None:
    """Add a site. Nothing is fetched before `clerk update`, or before the scheduler finds it due.

    \b
    Examples:
      clerk site add springfield --name Springfield --state IL --kind city --scraper legistar \\
          --extra '{"client": "springfield"}'
      clerk site add scans --name "Scanned minutes" --scraper directory --extra '{"path": "/srv/scans"}'
    """
    settings = config.load()
    plugins = manager.load(settings)
    proposal = validate_site(plugins, subdomain, {"name": subdomain, **_given(values)}, {})
    with _database(settings) as connection, connection.transaction(force_rollback=dry_run):
        if not add_site(connection, subdomain, proposal.values):
            raise InvalidSite(f"there is a site {subdomain} already", f"change it with `clerk site edit {subdomain}`")
        row = _known(connection, subdomain)
    if as_json:
        print_json({"added": row.as_dict(), "dry_run": dry_run})
    else:
        click.echo(_would(dry_run, f"{subdomain}: added"))
    if not dry_run:
        _tell_plugins(plugins, [subdomain])


def _tell_plugins(plugins: manager.Plugins, subdomains: list[str]) -> None:
    """post_create. The site is there whatever a plugin does; its error is told, and is the exit code."""
    failed = False
    for subdomain in subdomains:
        try:
            list(plugins.call_each("post_create", subdomain=subdomain))
        except (PluginRaised, PluginFailed, PluginTimeout) as error:
            info(f"clerk: {subdomain} was added, but {error}.")
            failed = True
    if failed:
        click.get_current_context().exit(EXIT_FAILURE)


@site.command("list")
@click.option("--scraper", help="Only those with this fetcher.")
@click.option("--state", help="Only those of this state.")
@json_option
def list_command(scraper: str | None, state: str | None, as_json: bool) -> None:
    """List the sites.

    \b
    Examples:
      clerk site list --state CA
      clerk site list --json
    """
    with _database(config.load()) as connection:
        sites = read_sites(connection, scraper, state)
    if as_json:
        print_json([one.as_dict() for one in sites])
    elif not sites:
        click.echo("No sites. Add one with `clerk site add`.")
    else:
        rows = [
            (one.subdomain, one.name, one.state, one.kind, one.scraper, one.current_stage, one.outcome) for one in sites
        ]
        header = ("subdomain", "name", "state", "kind", "scraper", "stage", "outcome")
        table([header, *(tuple(cell or "" for cell in row) for row in rows)])


@site.command()
@click.argument("subdomain")
@json_option
def show(subdomain: str, as_json: bool) -> None:
    """Show a site: what is set, how many documents are known, and where its files are.

    \b
    Example:
      clerk site show springfield
    """
    settings = config.load()
    with _database(settings) as connection:
        row = _known(connection, subdomain)
        documents = count_documents(connection, subdomain)
    storage = settings.storage_dir / subdomain
    if as_json:
        print_json({**row.as_dict(), "documents": documents, "storage": storage})
        return
    values = {**row.as_dict(), "extra": row.extra}
    shown = [(column, str(value)) for column, value in values.items() if value is not None]
    table(
        [*shown, *((f"documents {what}", str(number)) for what, number in documents.items()), ("files", str(storage))]
    )


@site.command()
@click.argument("subdomain")
@_columns
@dry_run_option
@json_option
def edit(subdomain: str, dry_run: bool, as_json: bool, **values: Any) -> None:
    """Change what is set for a site. An empty value clears it. A run that is going keeps what it began with.

    \b
    Examples:
      clerk site edit springfield --name "City of Springfield"
      clerk site edit springfield --extra '{"client": "springfield", "since": "2020-01-01"}' --dry-run
    """
    changes = _given(values)
    if not changes:
        raise click.UsageError("Say what to change, such as --name.")
    settings = config.load()
    with _database(settings) as connection:
        before = _known(connection, subdomain)
        known = {column: getattr(before, column) for column in EDITABLE}
        proposal = validate_site(manager.load(settings), subdomain, changes, known)
        with connection.transaction(force_rollback=dry_run):
            edit_site(connection, subdomain, proposal.values)
            after = _known(connection, subdomain)
    changed = {
        column: {"before": known[column], "after": getattr(after, column)}
        for column in EDITABLE
        if known[column] != getattr(after, column)
    }
    if as_json:
        print_json({"site": subdomain, "changed": changed, "dry_run": dry_run})
    elif not changed:
        click.echo(f"{subdomain}: nothing to do, it is like that already.")
    else:
        for column, change in changed.items():
            click.echo(_would(dry_run, f"{subdomain}: {column} was {change['before']}, is {change['after']}"))


@site.command()
@click.argument("subdomain")
@click.option("--files", is_flag=True, help="Also delete its PDFs, texts, images and archive. They cannot be had back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@json_option
def remove(subdomain: str, files: bool, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Remove a site with its history. A run that is going is cancelled. Its files stay unless told.

    \b
    Examples:
      clerk site remove springfield --dry-run
      clerk site remove springfield --files --yes
    """
    settings = config.load()
    with _database(settings) as connection:
        _known(connection, check_subdomain(subdomain))
        folder = SiteStorage(settings.storage_dir, subdomain).folder
        if not (yes or dry_run):
            lost = f"its history and all of {folder}" if files else "its history; its files stay"
            click.confirm(f"Remove {subdomain}, {lost}?", abort=True, err=True)
        with connection.transaction(force_rollback=dry_run):
            engine.cancel_run(connection, subdomain, "the site is being removed")
            lost_rows = remove_site(connection, subdomain)
    deleted = files and folder.is_dir()
    if deleted and not dry_run:
        _delete(folder)
    if as_json:
        print_json({"removed": subdomain, **lost_rows, "files": folder, "files_deleted": deleted, "dry_run": dry_run})
    else:
        kept = f"{folder} deleted" if deleted else f"files in {folder} kept" if folder.is_dir() else "it had no files"
        click.echo(_would(dry_run, f"{subdomain}: removed with {lost_rows['documents']} documents; {kept}"))


def _delete(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise ClerkError(
            f"the site was removed, but not all of {folder} ({error})", "delete what is left by hand"
        ) from error


@site.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--update", is_flag=True, help="Also change sites that are there already.")
@dry_run_option
@json_option
def import_command(file: Path, update: bool, dry_run: bool, as_json: bool) -> None:
    """Add the sites of a file: CSV with a header, JSON, or JSON lines. All of them, or none if one is wrong.

    Columns: subdomain, name, state, kind, scraper, start_year, extra, country, lat, lng.

    \b
    Examples:
      clerk site import sites.csv --dry-run
      clerk site import sites.json --update
    """
    settings = config.load()
    plugins = manager.load(settings)
    added: list[str] = []
    changed: list[str] = []
    left: list[str] = []
    with _database(settings) as connection:
        proposals = _all_checked(plugins, connection, read_import(file), update)
        with connection.transaction(force_rollback=dry_run):
            for proposal in proposals:
                if add_site(connection, proposal.subdomain, {"name": proposal.subdomain, **proposal.values}):
                    added.append(proposal.subdomain)
                elif update:
                    edit_site(connection, proposal.subdomain, proposal.values)
                    changed.append(proposal.subdomain)
                else:
                    left.append(proposal.subdomain)
    if as_json:
        print_json({"added": added, "changed": changed, "left": left, "dry_run": dry_run})
    else:
        click.echo(_would(dry_run, f"{len(added)} added, {len(changed)} changed, {len(left)} left as they were"))
    if not dry_run:
        _tell_plugins(plugins, added)


def _all_checked(
    plugins: manager.Plugins, connection: Connection, sites: list[tuple[str, dict[str, Any]]], update: bool
) -> list[ValidatedSite]:
    """Every mistake of the file is told at once."""
    proposals: dict[str, ValidatedSite] = {}
    problems = []
    for subdomain, values in sites:
        row = read_site(connection, subdomain) if update else None
        before = {column: getattr(row, column) for column in EDITABLE} if row else {}
        try:
            if subdomain in proposals:
                raise InvalidSite(f"{subdomain} is there twice", "leave one of them out")
            proposals[subdomain] = validate_site(plugins, subdomain, values, before)
        except InvalidSite as error:
            problems.append(error)
    if problems:
        for problem in problems:
            info(f"clerk: {problem}")
        raise InvalidSite(f"{len(problems)} of {len(sites)} sites have mistakes", "mend the file; nothing was imported")
    return list(proposals.values())
