"""`clerk site detect` and `check`, and what `clerk site add --url` asks before it adds a site."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from clerk import config
from clerk.cli.connection import open_if_any, open_pipeline
from clerk.cli.output import confirm, info, json_option, print_json, show, table, text
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.cli.site_prompt import check_address
from clerk.cli.source import candidate_rows, describe_failure, listing_rows, time_limit_option
from clerk.db.sites import read_site, require_site
from clerk.errors import (
    EXIT_FAILURE,
    EXIT_UNKNOWN,
    JobError,
    PluginMissing,
)
from clerk.sources.detection import complete_address
from clerk.sources.detection_result import Candidate, Detection
from clerk.sources.fetcher import Site
from clerk.sources.http.rate_limit import Connect
from clerk.sources.listing import SourceListing
from clerk.sources.site_validation import InvalidSite
from clerk.sources.source_lookup import WITHOUT_VENDOR, SourceFailed, choose, detect_url, list_site, shared


@click.command()
@click.argument("url")
@json_option
def detect(url: str, as_json: bool) -> None:
    """Find out which system publishes the meetings of a town: vendor, settings, confidence and evidence.

    URL is any page of the town or its portal, or a link to a document. At most 12 requests are made. Confidence is
    certain (the address, its redirect, the page itself or what it embeds is the portal), likely (the page links to the
    portal) or possible. Exit code 3: unknown.

    \b
    Examples:
      clerk site detect https://www.springfield.gov
      clerk site detect https://springfield.granicus.com/ViewPublisher.php?view_id=2 --json
    """
    settings = config.load()
    url = check_address(url)
    with contextlib.ExitStack() as stack:
        detection = detect_url(settings, url, lambda: shared(stack.enter_context(open_if_any(settings))))
    if as_json:
        print_json(detection.as_dict())
    else:
        _show_detection(detection)
    if detection.best is None:
        click.get_current_context().exit(EXIT_UNKNOWN)


def _show_detection(detection: Detection) -> None:
    if detection.best is None:
        if detection.unknown_host:
            click.echo(f"There is no host {detection.unknown_host}: check the address.")
            return
        what = "the address could not be read" if detection.failure else "no vendor was recognised"
        click.echo(f"Unknown: {what}.")
        if detection.tried:
            show(table([("tried", text(f"{each.url}: {each.result}")) for each in detection.tried]))
        if detection.links is not None:
            click.echo("\nPages of the town link to documents:")
            show(table(candidate_rows(detection.links)))
            _show_command(detection)
        elif not detection.failure:
            click.echo(f"For another source, {WITHOUT_VENDOR}.")
        return
    for number, candidate in enumerate(detection.candidates):
        if number:
            click.echo("")
        show(table(candidate_rows(candidate)))
    if not detection.best.missing:
        _show_command(detection)


def _show_command(detection: Detection) -> None:
    choice = " --scraper VENDOR" if detection.is_ambiguous else ""
    click.echo("")
    show(text(f"Add it: clerk site add NAME --url '{detection.url}'{choice}"))


@click.command()
@click.argument("subdomain")
@time_limit_option
@quiet_option
@json_option
def check(subdomain: str, time_limit: float, quiet: bool, as_json: bool) -> None:
    """List the source of a site without fetching documents: what a run would find, or which error it would end with.

    \b
    Examples:
      clerk site check springfield
      clerk site check springfield --time-limit 0 --json
    """
    settings = config.load()
    listing, error = None, None
    with open_pipeline(settings) as connection:
        row = require_site(connection, subdomain)
        if not row.scraper:
            raise InvalidSite(f"{subdomain} has no scraper", f"name one with `clerk site edit {subdomain} --scraper …`")
        try:
            site = Site(subdomain, row.name or subdomain, row.extra_values, row.start_year)
            with ProgressReporter(quiet or as_json) as progress:
                listing = list_site(
                    settings,
                    shared(connection),
                    site,
                    row.scraper,
                    time_limit,
                    lambda number: progress.update("documents listed", number, None),
                )
        except ValueError as problem:
            raise InvalidSite(f"the extra of {subdomain} is not a JSON object", "correct it") from problem
        except (JobError, PluginMissing) as problem:
            error = problem
    if as_json:
        print_json(
            {
                "site": subdomain,
                "scraper": row.scraper,
                "ok": error is None,
                "error": describe_failure(error) if error else None,
                "listing": listing.as_dict() if listing else None,
            }
        )
    elif listing is not None:
        show(table([("scraper", row.scraper), *listing_rows(listing)]))
    else:
        failure = describe_failure(error) if error else {}
        show(text(f"{subdomain}: {failure.get('code')}: {failure.get('message')}"))
    if error is not None:
        click.get_current_context().exit(EXIT_FAILURE)


def require_terminal(is_confirmed: bool) -> None:
    """Raise UsageError if a question has to be asked and there is nobody to ask."""
    if not is_confirmed and not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask on. Give --yes to add the site, or --dry-run to try it.")


def find_source(
    settings: config.Settings,
    subdomain: str,
    url: str,
    values: dict[str, Any],
    *,
    time_limit: float,
    is_confirmed: bool,
    as_json: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Detect the source at an address, list it, show it, and ask. Returns the columns for the site, and a report.

    `values`: columns that were given; a scraper selects one of several candidates, keys of `extra` are added.
    """
    require_terminal(is_confirmed)
    given = given_extra(subdomain, values.get("extra"))
    with open_if_any(settings) as connection:
        if connection is not None and read_site(connection, subdomain) is not None:
            raise InvalidSite(f"there is already a site {subdomain}", f"change it with `clerk site edit {subdomain}`")
        if not as_json:
            info(f"Looking at {url} …")
        detection = detect_url(settings, complete_address(url), lambda: shared(connection), given)
        candidate = choose(detection, values.get("scraper"))
        candidate.extra.update(given)
        if not as_json:
            show(table(candidate_rows(candidate)))
        site = Site(subdomain, str(values.get("name") or subdomain), candidate.extra, _year(values.get("start_year")))
        listing = _list(settings, shared(connection), site, candidate, time_limit, as_json)
    if not as_json:
        show(table(listing_rows(listing)))
    if not listing.documents:
        raise SourceFailed(
            f"{candidate.scraper} lists no documents with {json.dumps(candidate.extra)}",
            f"`clerk site add {subdomain} --scraper {candidate.scraper} --extra … --no-check` adds it anyway",
        )
    if not is_confirmed:
        confirm(f"Add {subdomain}?", f"{subdomain} was not added")
    columns = {**values, "scraper": candidate.scraper, "extra": json.dumps(candidate.extra, ensure_ascii=False)}
    return columns, {"detected": candidate.as_dict(), "listing": listing.as_dict()}


def _list(
    settings: config.Settings,
    connect: Connect | None,
    site: Site,
    candidate: Candidate,
    time_limit: float,
    as_json: bool,
) -> SourceListing:
    with _as_source_failure(site.subdomain, candidate), ProgressReporter(as_json) as progress:
        return list_site(
            settings,
            connect,
            site,
            candidate.scraper,
            time_limit,
            lambda number: progress.update("documents listed", number, None),
        )


@contextlib.contextmanager
def _as_source_failure(subdomain: str, candidate: Candidate) -> Iterator[None]:
    try:
        yield
    except JobError as error:
        raise SourceFailed(
            f"{subdomain} was not added, because {candidate.scraper} could not be listed ({error.code}: {error})",
            f"`clerk site add {subdomain} --scraper {candidate.scraper} --extra … --no-check` adds it anyway",
        ) from error


def given_extra(subdomain: str, extra: str | None) -> dict[str, Any]:
    try:
        values = json.loads(extra) if extra else {}
        if not isinstance(values, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise InvalidSite(f"{subdomain}: extra {str(extra)[:80]!r} is invalid", "use a JSON object") from error
    return values


def _year(value: str | None) -> int | None:
    return int(value) if value and value.isdecimal() else None
