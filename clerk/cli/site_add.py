"""`clerk site add`: adds a site with a folder, a detected system or the settings of a fetcher as its source."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from clerk import config
from clerk.cli import site_detect
from clerk.cli.connection import Connection, open_if_any
from clerk.cli.output import confirm, dry_run_option, dry_run_prefix, info, json_option, print_json
from clerk.cli.site_prompt import NewSite, ask_missing, ask_source_again
from clerk.cli.site_source import check_path, list_local, list_remote, local_path, show_listing
from clerk.cli.source import time_limit_option
from clerk.cli.source_options import SourceCommand, given_settings, infer_scraper, merge_settings, parse_settings
from clerk.db.audit import log_action
from clerk.db.sites import EDITABLE, SiteRow, add_site, require_site
from clerk.errors import EXIT_FAILURE, DownloadFailed, JobError, PluginError
from clerk.monitoring.workers import read_workers
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.site_validation import InvalidSite, InvalidSource, validate_site
from clerk.sources.source_lookup import SourceFailed

Command = TypeVar("Command", bound=Callable[..., Any])


def column_options(command: Command) -> Command:
    """The options that describe a site."""
    for option in (
        click.option("--cadence", help="How often it is fetched: hourly, daily (default), weekly, never, or hours."),
        click.option("--weight", help="How many of its documents are processed per turn, 1 to 100; by default 1."),
        click.option("--lng", help="Longitude in degrees."),
        click.option("--lat", help="Latitude in degrees."),
        click.option("--country", help="For example US."),
        click.option("--extra", help="Settings of the source as JSON; `clerk plugins --fetcher NAME` lists the keys."),
        click.option("--start-year", help="Older documents are not fetched."),
        click.option("--scraper", help="The fetcher: directory, manifest, links, legistar, civicplus, primegov, …"),
        click.option("--kind", help="For example city, county or school-board."),
        click.option("--state", help="For example CA."),
        click.option("--name", help="Name of the municipality."),
    ):
        command = option(command)
    return command


def given_columns(values: dict[str, Any]) -> dict[str, Any]:
    return {column: value for column, value in values.items() if column in EDITABLE and value is not None}


@click.command(cls=SourceCommand)
@click.argument("subdomain", required=False)
@click.option("--url", help="A page of the town or its portal: the system is detected, and what it lists is shown.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--no-check", is_flag=True, help="Do not look at the source, such as a folder that only the workers have."
)
@time_limit_option
@column_options
@dry_run_option
@json_option
@click.pass_context
def add(
    ctx: click.Context,
    /,
    subdomain: str | None,
    url: str | None,
    yes: bool,
    no_check: bool,
    time_limit: float,
    dry_run: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Add a site. A worker starts its first run within a minute, `clerk update` immediately.

    SUBDOMAIN is its short name. On a terminal, clerk asks for what is missing: the name, and where the documents are.

    The documents are in a folder (--path), or on the web (--url): then clerk detects the system, shows what it would
    fetch, and asks. --scraper names a system instead; its settings are options: `clerk site add --scraper NAME --help`
    lists them. For pages with links (--pages), clerk also shows what it would fetch, and asks. --dry-run shows the
    documents, kinds and dates that a run would find, and what it would skip.

    \b
    Examples:
      clerk site add
      clerk site add scans --path /srv/scans --name "Scanned minutes"
      clerk site add springfield --url https://www.springfield.gov --name Springfield --state IL
      clerk site add springfield --scraper legistar --client springfield --since 2020-01-01 --dry-run
      clerk site add springfield --scraper links --pages https://www.springfield.gov/minutes --cadence weekly
    """
    settings = config.load()
    plugins = manager.load(settings)
    new = NewSite(subdomain or "", given_columns(values), given_settings(ctx), url)
    if new.url is not None and "url" in find_fetcher(plugins, new.columns.get("scraper")).extra_help:
        new.settings["url"], new.url = (new.url,), None
    ask_missing(new)
    options = _Options(time_limit, no_check, dry_run, is_confirmed=yes or dry_run, as_json=as_json)
    while True:
        try:
            columns, report = _find_source(settings, plugins, new, options)
            break
        except (SourceFailed, InvalidSource) as error:
            if not new.can_ask_again:
                raise
            info(f"clerk: {error}")
            ask_source_again(new)
    create_site(settings, new.subdomain, columns, dry_run, as_json, start=False, report=report)


@dataclass(frozen=True)
class _Options:
    time_limit: float
    no_check: bool
    dry_run: bool
    is_confirmed: bool
    as_json: bool


def _find_source(
    settings: config.Settings, plugins: manager.Plugins, new: NewSite, options: _Options
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Look at the source, and ask. Returns the columns of the site, and a report for the JSON output."""
    columns = dict(new.columns)
    if new.url is None and "scraper" not in columns:
        columns["scraper"] = infer_scraper(new.settings)
    fetcher = find_fetcher(plugins, columns.get("scraper"))
    columns["extra"] = merge_settings(columns.get("extra"), parse_settings(fetcher, new.settings), new.subdomain)
    if new.url is not None:
        return site_detect.find_source(
            settings,
            new.subdomain,
            new.url,
            columns,
            time_limit=options.time_limit,
            is_confirmed=options.is_confirmed,
            as_json=options.as_json,
        )
    validate_site(plugins, new.subdomain, columns, {})
    is_listed = _is_page(fetcher) and not options.no_check
    if is_listed:
        site_detect.require_terminal(options.is_confirmed)
    report = _look(settings, new.subdomain, columns, fetcher, options)
    if (new.is_asked or is_listed) and not options.is_confirmed:
        confirm(f"Add {new.subdomain}?", f"{new.subdomain} was not added", default=new.is_asked)
    return columns, report


def find_fetcher(plugins: manager.Plugins, scraper: str | None) -> type[Fetcher]:
    """The class of a fetcher; the base class if there is none, which the validation reports."""
    try:
        return plugins.resolve("fetcher_class", scraper, Fetcher)[1] if scraper else Fetcher
    except JobError:
        return Fetcher


def add_settings(
    plugins: manager.Plugins,
    scraper: str | None,
    given: Mapping[str, Any],
    extra: str | None,
    subdomain: str,
    *,
    no_check: bool,
) -> str | None:
    """`extra` with the settings of the command line. Raises InvalidSite if they name a folder that cannot be read."""
    fetcher = find_fetcher(plugins, scraper)
    parsed = parse_settings(fetcher, given)
    path = local_path(fetcher, parsed)
    if path is not None and not no_check:
        check_path(path, is_folder=scraper == "directory")
    return merge_settings(extra, parsed, subdomain)


def _look(
    settings: config.Settings, subdomain: str, columns: Mapping[str, Any], fetcher: type[Fetcher], options: _Options
) -> dict[str, Any]:
    """List a folder or a page with links always, another source on the web for a dry run. A page that does not answer
    now is no error except for a dry run. Returns the listing for the JSON output."""
    extra = json.loads(columns["extra"] or "{}")
    path = local_path(fetcher, extra)
    if options.no_check or (path is None and not options.dry_run and not _is_page(fetcher)):
        return {}
    year = int(columns["start_year"]) if columns.get("start_year") else None
    site = Site(subdomain, str(columns.get("name") or subdomain), extra, year)
    if path is not None:
        listing = list_local(settings, site, columns["scraper"], path, options.time_limit, options.as_json)
    else:
        try:
            listing = list_remote(settings, site, columns["scraper"], options.time_limit, options.as_json)
        except SourceFailed as error:
            if options.dry_run or not isinstance(error.__cause__, DownloadFailed):
                raise
            info(f"clerk: warning: {error}")
            return {}
    if not options.as_json:
        show_listing(listing, path, all_reasons=options.dry_run)
    return {"listing": listing.as_dict()}


def _is_page(fetcher: type[Fetcher]) -> bool:
    """Whether the source is any page with links: a wrong address has none, where that of a vendor is an error."""
    return "pages" in fetcher.extra_help


def create_site(
    settings: config.Settings,
    subdomain: str,
    values: dict[str, Any],
    dry_run: bool,
    as_json: bool,
    *,
    start: bool,
    report: Mapping[str, Any] | None = None,
) -> None:
    """Add a site, start its first run if asked to, call the plugins, and report; `report` is added to the JSON."""
    plugins = manager.load(settings)
    validated = validate_site(plugins, subdomain, {"name": subdomain, **values}, {})
    has_workers = False
    with open_if_any(settings, create=not dry_run) as connection:
        if connection is None:
            row, run_id = SiteRow.from_columns(subdomain, validated.values), None
        else:
            has_workers = any(worker.alive for worker in read_workers(connection))
            with connection.transaction(force_rollback=dry_run):
                row, run_id = _insert(connection, subdomain, validated.values, start)
    started = {"run_id": None if dry_run else run_id} if start else {}
    if as_json:
        print_json({"added": row.as_dict(), **(report or {}), **started, "dry_run": dry_run})
    else:
        click.echo(dry_run_prefix(dry_run, f"{subdomain}: added{', its first run is started' if start else ''}"))
    if not dry_run and not start and not as_json:
        without = "No worker runs: its first run starts within a minute of `clerk up`."
        info("Workers start its first run within a minute." if has_workers else without)
    if not dry_run:
        call_post_create(plugins, [subdomain])


def _insert(
    connection: Connection, subdomain: str, values: Mapping[str, Any], start: bool
) -> tuple[SiteRow, int | None]:
    if not add_site(connection, subdomain, values):
        raise InvalidSite(f"there is already a site {subdomain}", f"change it with `clerk site edit {subdomain}`")
    run_id = engine.start_run(connection, subdomain, "new site") if start else None
    log_action(connection, "add site", subdomain, run_id, scraper=values.get("scraper"))
    return require_site(connection, subdomain), run_id


def call_post_create(plugins: manager.Plugins, subdomains: list[str]) -> None:
    """An error of a plugin is reported and sets the exit code; the site stays added."""
    failed = False
    for subdomain in subdomains:
        try:
            list(plugins.call_each("post_create", subdomain=subdomain))
        except PluginError as error:
            info(f"clerk: {subdomain} was added, but {error}.")
            failed = True
    if failed:
        click.get_current_context().exit(EXIT_FAILURE)
