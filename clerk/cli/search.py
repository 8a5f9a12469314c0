"""`clerk search`."""

from __future__ import annotations

import contextlib
import csv
import re
import shlex
import sqlite3
import sys
from datetime import date
from pathlib import Path
from typing import Any, cast

import click
from rich.text import Text

from clerk import config
from clerk.archive.content_hash import open_readonly
from clerk.archive.hits import CSV_COLUMNS, Hit, read_texts
from clerk.archive.query import HIGHLIGHT, parse
from clerk.archive.search import Facets, SearchRequest, SearchResult, Sort
from clerk.cli.output import info, json_option, nothing_published, print_json, show, table, text
from clerk.cli.published import Day, check_site_option
from clerk.documents.kinds import KINDS
from clerk.documents.originals import find_original
from clerk.documents.storage import SiteStorage
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.humanize import pluralize
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.publish.published_search import search_published
from clerk.publish.search_form import FILTERS, SearchForm
from clerk.publish.search_suggestions import suggest
from clerk.publish.versions import published_archives

_PAGE_SIZE = 20
_MAX_FACET_ROWS = 10
_MINUS = "\N{MINUS SIGN}"


class _QueryCommand(click.Command):
    """Accepts `-word` as part of the query. -h stays an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [re.sub("^-(?!h$)(?=[^-])", _MINUS, argument) for argument in args]
        return super().parse_args(ctx, words)


@click.command("search", cls=_QueryCommand)
@click.argument("words", nargs=-1, required=True)
@click.option("--site", help="Search only the archive of this site.")
@click.option("--body", default="", help="Search only meetings of this body, for example 'City Council'.")
@click.option("--kind", type=click.Choice(KINDS), help="Search only documents of this kind.")
@click.option("--year", type=click.IntRange(1000, 9999), help="Search only meetings of this year.")
@click.option("--since", type=Day(), metavar="YYYY-MM-DD", help="Search only meetings from this day on.")
@click.option(
    "--added-since",
    type=Day(),
    metavar="YYYY-MM-DD",
    help="Search only documents that clerk found on or after this day.",
)
@click.option(
    "--sort",
    type=click.Choice([str(sort) for sort in Sort]),
    default=str(Sort.RELEVANCE),
    show_default=True,
    help="date: the newest meeting first.",
)
@click.option("--limit", type=click.IntRange(min=1), help=f"Results per page. Default: {_PAGE_SIZE}; all with --csv.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True, help="The page of results to show.")
@click.option("--facets", is_flag=True, help="Also show the number of results by site, body, kind and year.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all results as CSV.")
@json_option
def search_command(
    words: tuple[str, ...],
    site: str | None,
    body: str,
    kind: str | None,
    year: int | None,
    since: date | None,
    added_since: date | None,
    sort: str,
    limit: int | None,
    page: int,
    facets: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Search the published archives for words. Exit code 1: no page was found.

    A page must contain all words, in any form: votes also finds voted and voting. "…" is a phrase as written, bik*
    matches words that start with bik, and -word excludes. AND, OR, NOT, NEAR(tree cutting, 5) and brackets work too.
    docs/search.md describes the query language.

    \b
    Examples:
      clerk search tree cutting
      clerk search '"bike lanes" budget' --site springfield --since 2024-01-01
      clerk search ordinance 2017-88 -school --sort date --page 2
      clerk search 'tree OR hedge' --added-since 2025-01-01 --csv > new.csv
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    size = limit or (None if as_csv else _PAGE_SIZE)
    request = SearchRequest(
        parse(" ".join(words).replace(_MINUS, "-")),
        since=since,
        added_since=added_since,
        body=body,
        kind=kind or "",
        year=str(year or ""),
        sort=Sort(sort),
        offset=(page - 1) * (size or 0),
        limit=size,
    )
    settings = config.load()
    check_site_option(settings, site)
    result = search_published(settings.publish_dir, request, site)
    _report_problems(result, request)
    if as_csv:
        _print_csv(result.hits)
    elif as_json:
        print_json(_as_json(settings, request, result))
    else:
        _print_result(settings, request, result, site, facets)
        if not result.total and result.archives:
            form = SearchForm(
                request.query.text, site or "", body, kind or "", str(year or ""), _iso(since), _iso(added_since)
            )
            _print_suggestions(settings.publish_dir, form, request)
    click.get_current_context().exit(EXIT_OK if result.hits else EXIT_FAILURE)


def _iso(value: date | None) -> str:
    return value.isoformat() if value else ""


def _report_problems(result: SearchResult, request: SearchRequest) -> None:
    for name, problem in result.broken.items():
        info(f"The archive of {name} cannot be searched ({problem}): check it with `clerk verify --full`.")
    if result.older_form:
        archives = pluralize(result.older_form, "archive")
        if request.added_since:
            info(f"{archives} published by an older version of clerk do not record when documents were added.")
        else:
            info(f"In {archives} published by an older version of clerk, words are found only as they are written.")


def _print_result(
    settings: config.Settings, request: SearchRequest, result: SearchResult, site: str | None, facets: bool
) -> None:
    files = _document_files(settings, [hit for hit in result.hits if not hit.source_url])
    for hit in result.hits:
        print_hit(hit, files.get(_document_of(hit)))
    if not result.total:
        click.echo(_no_result(site, result.archives + len(result.broken)))
        return
    assert request.limit is not None
    last = -(-result.total // request.limit)
    found = f"{pluralize(result.total, 'page')} found in {pluralize(result.archives, 'archive')}"
    if not result.hits:
        click.echo(f"{found}; there are {pluralize(last, 'page')} of results.")
    elif request.offset or result.total > len(result.hits):
        end = request.offset + len(result.hits)
        more = f"; the next with --page {request.offset // request.limit + 2}" if end < result.total else ""
        click.echo(f"{request.offset + 1:,} to {end:,} of {found}{more}.")
    if facets:
        _print_facets(result.facets)


def _print_suggestions(publish_dir: StoragePath, form: SearchForm, request: SearchRequest) -> None:
    for suggestion in suggest(publish_dir, form, request.query):
        found = pluralize(suggestion.total, "page")
        click.echo(f"{suggestion.label}: {_as_command(suggestion.form)} ({found})")


def _as_command(form: SearchForm) -> str:
    options = [f"--{name.replace('_', '-')}={getattr(form, name)}" for name in FILTERS if getattr(form, name)]
    return shlex.join(["clerk", "search", form.q, *options])


def _print_facets(facets: Facets) -> None:
    for name, counts in facets.as_dict().items():
        rows = [(value, f"{count:,}") for value, count in counts.items()]
        if len(rows) > _MAX_FACET_ROWS:
            others = f"{len(rows) - _MAX_FACET_ROWS:,} more, see --json"
            rows = [*rows[:_MAX_FACET_ROWS], (others, "")]
        click.echo()
        show(table(rows, (name, "pages"), right={1}))


def _no_result(site: str | None, archives: int) -> str:
    if archives:
        return f"No page found in {pluralize(archives, 'archive')}."
    return nothing_published(site)


def _as_json(settings: config.Settings, request: SearchRequest, result: SearchResult) -> dict[str, Any]:
    assert request.limit is not None
    files = _document_files(settings, result.hits)
    return {
        "query": request.query.text,
        "total": result.total,
        "page": request.offset // request.limit + 1,
        "pages": -(-result.total // request.limit),
        "archives": result.archives,
        "broken": result.broken,
        "facets": result.facets.as_dict(),
        "hits": [
            hit.as_dict() | {"image_file": _image_file(settings, hit), "document_file": files.get(_document_of(hit))}
            for hit in result.hits
        ],
    }


def _document_of(hit: Hit) -> tuple[str, str, str, str]:
    return hit.subdomain, hit.kind, hit.date, hit.meeting


def _document_files(settings: config.Settings, hits: list[Hit]) -> dict[tuple[str, str, str, str], Path]:
    """The stored files of documents. In a bucket they are not looked for: several requests per document."""
    if isinstance(settings.storage_dir, ObjectPath):
        return {}
    files = {}
    for site in {hit.subdomain for hit in hits}:
        storage = SiteStorage(settings.storage_dir, site)
        for _, database in published_archives(settings.publish_dir, site):
            # A damaged archive has been reported by the search.
            with contextlib.suppress(sqlite3.Error), open_readonly(database) as archive:
                for document in {_document_of(hit) for hit in hits if hit.subdomain == site}:
                    place = document[1:]
                    if (found := find_original(storage, *place, read_texts(archive, *place))) is not None:
                        files[document] = cast("Path", found[1])
    return files


def _image_file(settings: config.Settings, hit: Hit) -> StoragePath | None:
    """The file of the page's image; None if no image was kept. In a bucket it is not looked for: a request per hit."""
    image = SiteStorage(settings.storage_dir, hit.subdomain).image_path(hit.page_image or "")
    return image if image is not None and (isinstance(image, ObjectPath) or image.is_file()) else None


def _print_csv(hits: list[Hit]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(CSV_COLUMNS)
    for hit in hits:
        writer.writerow(hit.as_csv_row(CSV_COLUMNS))


def print_hit(hit: Hit, file: Path | None = None) -> None:
    """`file`: the document in storage, if its source is not on the web."""
    snippet = Text("  ")
    # Each match is between two marks, so every second part is a match.
    for number, part in enumerate(re.split(f"[{''.join(HIGHLIGHT)}]", " ".join(hit.snippet.split()))):
        snippet.append_text(text(part, "bold" if number % 2 else ""))
    lines = [text(f"{hit.subdomain}  {hit.meeting}, {hit.date}, {hit.kind}, page {hit.page}", "cyan"), snippet]
    if source := hit.source_url or file:
        lines.append(text(f"  {source}", "dim"))
    show(*lines)
