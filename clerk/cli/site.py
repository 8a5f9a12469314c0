"""`clerk site`: adds, lists, edits, removes and imports sites; what their sources skip is in `site_skipped`."""

from __future__ import annotations

import json
import shlex
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import click

from clerk import config
from clerk.cli import site_add, site_detect, site_import, site_list, site_skipped
from clerk.cli.connection import Connection, open_if_any, open_pipeline
from clerk.cli.names import Group
from clerk.cli.output import confirm, dry_run_option, dry_run_prefix, info, json_option, print_json, show, table
from clerk.cli.progress_reporter import quiet_option
from clerk.cli.site_add import add_settings, call_post_create, column_options, find_fetcher, given_columns
from clerk.cli.site_source import check_path, local_path
from clerk.cli.source_options import SourceCommand, given_settings
from clerk.db.audit import log_action
from clerk.db.sites import (
    EDITABLE,
    SiteRow,
    add_site,
    count_documents,
    edit_site,
    read_site,
    remove_site,
    require_site,
)
from clerk.documents.storage import SiteStorage, delete_folder
from clerk.errors import EXIT_FAILURE, ClerkError
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.sources.detection_result import Confidence
from clerk.sources.site_validation import (
    InvalidSite,
    ValidatedSite,
    check_subdomain,
    parse_sites,
    read_rows,
    validate_site,
)


@click.group(cls=Group)
def site() -> None:
    """Add, list, show, edit, remove and import sites, and date documents that were skipped.

    A subdomain is the key of a site: 1 to 63 lower-case letters, digits, dots and hyphens, with a letter or
    digit at both ends and no two dots in a row.

    \b
    Examples:
      clerk site detect https://www.springfield.gov
      clerk site add springfield --url https://www.springfield.gov
      clerk site add scans --path /srv/scans
      clerk site list --outcome failed
    """


site.add_command(site_add.add)
site.add_command(site_list.list_command)
site.add_command(site_list.export)
site.add_command(site_detect.detect)
site.add_command(site_detect.check)
site.add_command(site_skipped.skipped)
site.add_command(site_skipped.date_command, "date")
site.add_command(site_skipped.ignore)


@site.command("show")
@click.argument("subdomain")
@json_option
def show_command(subdomain: str, as_json: bool) -> None:
    """Show a site's columns, number of documents, and folder.

    \b
    Example:
      clerk site show springfield
    """
    settings = config.load()
    with open_pipeline(settings) as connection:
        row = require_site(connection, subdomain)
        documents = count_documents(connection, subdomain)
    storage = settings.storage_dir / subdomain
    if as_json:
        print_json({**row.as_dict(), "documents": documents, "storage": storage})
        return
    values = {**row.as_dict(), "extra": row.extra}
    rows = [(column, str(value)) for column, value in values.items() if value is not None]
    rows += [(f"documents {state}", str(number)) for state, number in documents.items()]
    show(table([*rows, ("files", str(storage))]))


@site.command(cls=SourceCommand)
@click.argument("subdomain")
@click.option("--no-check", is_flag=True, help="Do not look at a new folder, for one that only the workers have.")
@column_options
@dry_run_option
@json_option
@click.pass_context
def edit(ctx: click.Context, /, subdomain: str, no_check: bool, dry_run: bool, as_json: bool, **values: Any) -> None:
    """Change a site. An empty value resets a column, or removes a setting of the source.

    A setting of the source is changed alone; --extra replaces all of them. A new weight applies to jobs that wait;
    otherwise an active run is not affected. Without options, the present values are shown as options.

    \b
    Examples:
      clerk site edit springfield --name "City of Springfield" --cadence weekly
      clerk site edit springfield --since 2020-01-01 --languages eng+spa --dry-run
      clerk site edit scans --path /srv/new-scans
      clerk site edit springfield --weight 3
    """
    changes, source = given_columns(values), given_settings(ctx)
    settings = config.load()
    plugins = manager.load(settings)
    with open_pipeline(settings) as connection:
        before = require_site(connection, subdomain)
        if not changes and not source:
            _show_options(before, dry_run, as_json)
            return
        old = {column: getattr(before, column) for column in EDITABLE}
        if source:
            scraper, extra = changes.get("scraper") or before.scraper, changes.get("extra", before.extra)
            changes["extra"] = add_settings(plugins, scraper, source, extra, subdomain, no_check=no_check)
        validated = validate_site(plugins, subdomain, changes, old)
        with connection.transaction(force_rollback=dry_run):
            edit_site(connection, subdomain, validated.values)
            after = require_site(connection, subdomain)
            changed = _changes(before, after)
            if changed:
                log_action(connection, "edit site", subdomain, columns=list(changed))
    if as_json:
        print_json({"site": subdomain, "changed": changed, "dry_run": dry_run})
    elif not changed:
        click.echo(f"{subdomain}: nothing to do, it has these values already.")
    else:
        for column, change in changed.items():
            click.echo(dry_run_prefix(dry_run, f"{subdomain}: {column} was {change['before']}, is {change['after']}"))


def _show_options(row: SiteRow, dry_run: bool, as_json: bool) -> None:
    """Show a site's values as the options that set them."""
    if as_json:
        print_json({"site": row.subdomain, "changed": {}, "dry_run": dry_run})
        return
    columns = {column: getattr(row, column) for column in EDITABLE}
    with suppress(ValueError):  # invalid JSON is to be replaced as a whole, as are keys with the name of a column
        if not columns.keys() & row.extra_values.keys():
            del columns["extra"]
            columns |= row.extra_values
    click.echo(f"{row.subdomain} has these values. Give the options that change:")
    for column, value in columns.items():
        if value is not None:
            click.echo(f"  {_option(column, value)}")


def _option(key: str, value: Any) -> str:
    name = f"--{key.replace('_', '-')}"
    if isinstance(value, bool):
        return name if value else f"--no-{name[2:]}"
    return f"{name} {shlex.quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))}"


def _changes(before: SiteRow, after: SiteRow) -> dict[str, dict[str, Any]]:
    pairs = {column: (getattr(before, column), getattr(after, column)) for column in EDITABLE}
    return {column: {"before": old, "after": new} for column, (old, new) in pairs.items() if old != new}


@site.command()
@click.argument("subdomain")
@click.option("--files", is_flag=True, help="Also delete its PDFs, texts, images and archive, permanently.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@json_option
def remove(subdomain: str, files: bool, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Remove a site and its history. An active run is cancelled. Its files are kept without --files.

    \b
    Examples:
      clerk site remove springfield --dry-run
      clerk site remove springfield --files --yes
    """
    settings = config.load()
    with open_pipeline(settings) as connection:
        require_site(connection, check_subdomain(subdomain))
        folder = SiteStorage(settings.storage_dir, subdomain).folder
        if not (yes or dry_run):
            lost = f"its history and {folder}" if files else "its history, but keep its files"
            confirm(f"Remove {subdomain} and {lost}?", f"{subdomain} was not removed")
        with connection.transaction(force_rollback=dry_run):
            engine.cancel_run(connection, subdomain, "the site is being removed")
            counts = remove_site(connection, subdomain)
            log_action(connection, "remove site", subdomain, **counts)
    deleted = files and folder.is_dir()
    if deleted and not dry_run:
        _delete(folder)
    if as_json:
        print_json({"removed": subdomain, **counts, "files": folder, "files_deleted": deleted, "dry_run": dry_run})
    else:
        files_text = (
            f"{folder} deleted" if deleted else f"files in {folder} kept" if folder.is_dir() else "it had no files"
        )
        click.echo(
            dry_run_prefix(
                dry_run, f"{subdomain}: removed with {pluralize(counts['documents'], 'document')}; {files_text}"
            )
        )


def _delete(folder: StoragePath) -> None:
    try:
        delete_folder(folder)
    except OSError as error:
        raise ClerkError(
            f"the site was removed, but {folder} could not be deleted ({error})", "delete it by hand"
        ) from error


@site.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--update", is_flag=True, help="Also change sites that already exist. Not for files with url.")
@click.option(
    "--accept",
    type=click.Choice([str(confidence) for confidence in Confidence]),
    default=str(Confidence.CERTAIN),
    show_default=True,
    help="For files with url: the lowest confidence of systems that are added.",
)
@quiet_option
@dry_run_option
@json_option
def import_command(file: Path, update: bool, accept: str, quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Add the sites of a file: CSV with a header, JSON, or JSON lines. Nothing is imported if one site is invalid.

    Columns: subdomain, name, state, kind, scraper, start_year, extra, country, lat, lng, cadence,
    weight.

    With a column url, the system of each town is detected (`clerk site detect`). What is certain is added at once, and
    the rest is reported; exit code 1 if there is any. Sites that exist are skipped, so the command can be repeated.
    Without a column subdomain, it is made of the name.

    \b
    Examples:
      clerk site import towns.csv --dry-run          # columns name, state, url
      clerk site import sites.csv --dry-run
      clerk site import sites.json --update
    """
    settings = config.load()
    plugins = manager.load(settings)
    added: list[str] = []
    changed: list[str] = []
    unchanged: list[str] = []
    rows = read_rows(file)
    if site_import.has_addresses(rows):
        if update:
            raise click.UsageError("--update is not for files with a column url.")
        _import_addresses(settings, plugins, file, rows, Confidence(accept), quiet, dry_run, as_json)
        return
    with open_if_any(settings, create=not dry_run) as connection:
        validated_sites = _validate_all(plugins, connection, parse_sites(file, rows), update)
        with connection.transaction(force_rollback=dry_run) if connection else nullcontext():
            for validated in validated_sites:
                columns = {"name": validated.subdomain, **validated.values}
                if connection is None:
                    added.append(validated.subdomain)
                elif add_site(connection, validated.subdomain, columns):
                    log_action(connection, "add site", validated.subdomain, scraper=columns.get("scraper"))
                    added.append(validated.subdomain)
                elif update:
                    edit_site(connection, validated.subdomain, validated.values)
                    log_action(connection, "edit site", validated.subdomain, columns=list(validated.values))
                    changed.append(validated.subdomain)
                else:
                    unchanged.append(validated.subdomain)
    warnings = [
        warning
        for validated in validated_sites
        if validated.subdomain not in unchanged and (warning := _find_path_problem(plugins, validated))
    ]
    if as_json:
        print_json({"added": added, "changed": changed, "left": unchanged, "warnings": warnings, "dry_run": dry_run})
    else:
        for warning in warnings:
            info(f"clerk: warning: {warning}.")
        click.echo(dry_run_prefix(dry_run, f"{len(added)} added, {len(changed)} changed, {len(unchanged)} unchanged"))
    if not dry_run:
        call_post_create(plugins, added)


def _find_path_problem(plugins: manager.Plugins, validated: ValidatedSite) -> str:
    """Why the folder or file of a site cannot be read here. Only a warning, because the workers may have it."""
    extra = json.loads(validated.values.get("extra") or "{}")
    scraper = validated.values.get("scraper")
    path = local_path(find_fetcher(plugins, scraper), extra)
    if path is None:
        return ""
    try:
        check_path(path, is_folder=scraper == "directory")
    except InvalidSite as error:
        return f"{validated.subdomain}: {error.what}"
    return f"{validated.subdomain}: {path} is empty" if path.is_dir() and not any(path.iterdir()) else ""


def _import_addresses(
    settings: config.Settings,
    plugins: manager.Plugins,
    file: Path,
    rows: list[tuple[int, dict[str, Any]]],
    accepted: Confidence,
    quiet: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    with open_if_any(settings, create=not dry_run) as connection:
        towns = site_import.read_towns(file, rows, connection)
        report = site_import.import_towns(
            settings, connection, towns, accepted, dry_run=dry_run, quiet=quiet or as_json
        )
    if as_json:
        print_json({**report.as_dict(), "dry_run": dry_run})
    else:
        if report.results:
            report.show()
        counts = ", ".join(f"{number} {result}" for result, number in report.counts.items())
        click.echo(dry_run_prefix(dry_run, counts or "the file has no entries"))
    if not dry_run:
        call_post_create(plugins, report.added)
    if not report.is_complete:
        click.get_current_context().exit(EXIT_FAILURE)


def _validate_all(
    plugins: manager.Plugins, connection: Connection | None, sites: list[tuple[str, dict[str, Any]]], update: bool
) -> list[ValidatedSite]:
    """Report every invalid site of the file, not only the first."""
    validated: dict[str, ValidatedSite] = {}
    problems = []
    for subdomain, values in sites:
        row = read_site(connection, subdomain) if update and connection else None
        before = {column: getattr(row, column) for column in EDITABLE} if row else {}
        try:
            if subdomain in validated:
                raise InvalidSite(f"{subdomain} occurs twice", "remove one of them")
            validated[subdomain] = validate_site(plugins, subdomain, values, before)
        except InvalidSite as error:
            problems.append(error)
    if problems:
        for problem in problems:
            info(f"clerk: {problem}")
        count = f"{len(problems):,} of {pluralize(len(sites), 'site is', 'sites are')}"
        raise InvalidSite(f"{count} invalid", "correct them; nothing was imported")
    return list(validated.values())
