"""`clerk plugins record`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from datetime import date
from functools import partial
from pathlib import Path

import click
import psycopg

from clerk import config
from clerk.cli.connection import Connection, open_pipeline
from clerk.cli.output import dry_run_prefix, info, json_option, print_json
from clerk.db.connection import connect
from clerk.db.sites import require_site
from clerk.documents.media_types import READABLE
from clerk.documents.repository import DocumentRef
from clerk.errors import ClerkError, FetchError, JobError
from clerk.humanize import format_bytes, pluralize
from clerk.pipeline.tasks.fetch import read_extra
from clerk.plugins import manager
from clerk.plugins.isolation import describe_error, own_line
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.body import Sink
from clerk.sources.http.client import PublicOnlyTransport, RateLimitedClient, Validators
from clerk.sources.listed_documents import listed_documents
from clerk.sources.recording import Recording, RecordingError, RecordingTransport, check_target
from clerk.sources.redaction import Redaction
from clerk.sources.site_validation import InvalidSite
from clerk.sources.source_lookup import site_limits

_MAX_DOCUMENTS = 20


@click.command()
@click.argument("subdomain", metavar="SITE")
@click.option("--to", "folder", required=True, type=click.Path(path_type=Path), help="Folder for the recording.")
@click.option(
    "--documents",
    "download_count",
    default=0,
    type=click.IntRange(0, _MAX_DOCUMENTS),
    show_default=True,
    help="Download the newest N documents as well.",
)
@click.option("--redact", "names", multiple=True, metavar="NAME", help="Parameter to redact in addition; repeatable.")
@click.option("--max-size", default=20, type=click.IntRange(1, 500), show_default=True, help="Limit in megabytes.")
@click.option("--replace", is_flag=True, help="Replace the recording in the folder.")
@click.option("--dry-run", is_flag=True, help="Send the requests and show what would be written, but write nothing.")
@json_option
def record(
    subdomain: str,
    folder: Path,
    download_count: int,
    names: tuple[str, ...],
    max_size: int,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Record the answers of a site's source, for tests that replay them. The site itself does not change.

    Lists the documents of SITE as a fetch does, within the same limits, and writes each answer to a file of FOLDER.
    Tokens, keys, passwords and cookies are redacted: read the files before you publish them.

    \b
    Examples:
      clerk plugins record springfield --to tests/recordings/springfield
      clerk plugins record springfield --to tests/recordings/springfield --documents 2 --replace
      clerk plugins record springfield --to tests/recordings/springfield --redact client_id
    """
    check_target(folder, replace)
    settings = config.load()
    # Connected until the end, so that an embedded server is not stopped as idle between two requests.
    with open_pipeline(settings) as connection:
        scraper, fetcher_class, site = _read_source(settings, connection, subdomain)
        recording = Recording(scraper, site, date.today(), Redaction(names))
        recording.redaction.settings(dict(site.extra))  # collects its secrets
        info(f"Recording {subdomain} …")
        listed, downloaded = asyncio.run(
            _record(settings, fetcher_class, site, recording, download_count, max_size * 1_000_000)
        )
    if not dry_run:
        recording.write(folder, replace=replace)
    size = sum(len(answer.body) for answer in recording.answers)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "answers": len(recording.answers),
                "bytes": size,
                "documents": listed,
                "downloaded": downloaded,
                "dry_run": dry_run,
            }
        )
        return
    answers = f"{pluralize(len(recording.answers), 'answer')}, {format_bytes(size)}"
    summary = f"{folder}: {answers}; {pluralize(listed, 'document')} listed, {downloaded:,} downloaded."
    click.echo(dry_run_prefix(dry_run, summary))
    if not dry_run:
        info("Read the files before you publish them.")


def _read_source(settings: config.Settings, connection: Connection, subdomain: str) -> tuple[str, type[Fetcher], Site]:
    """The label of the site's fetcher, its class, and the site."""
    row = require_site(connection, subdomain)
    if not row.scraper:
        raise InvalidSite(f"{subdomain} has no scraper", f"name one with `clerk site edit {subdomain} --scraper …`")
    plugins = manager.load(settings)
    try:
        _, fetcher_class = plugins.resolve("fetcher_class", row.scraper, Fetcher)
        extra = read_extra(plugins, row)
        fetcher_class.check(extra)
    except (JobError, ValueError) as error:
        raise InvalidSite(f"{subdomain}: {error}", "`clerk plugins` lists what is loaded") from error
    # A copy, so that a fetcher which changes its `extra` does not change the recorded one.
    site = Site(subdomain, row.name or subdomain, json.loads(json.dumps(extra)), row.start_year)
    return row.scraper, fetcher_class, site


async def _record(
    settings: config.Settings,
    fetcher_class: type[Fetcher],
    site: Site,
    recording: Recording,
    download_count: int,
    max_bytes: int,
) -> tuple[int, int]:
    """Fill the recording. Returns the number of documents listed and of those downloaded."""
    limits = site_limits(settings, site.subdomain, site.extra, fetcher_class.host_interval)
    transport = RecordingTransport(PublicOnlyTransport(limits), recording, max_bytes)
    async with RateLimitedClient(limits, partial(connect, settings), transport=transport) as client:
        with contextlib.closing(fetcher_class(site, client)) as fetcher:
            try:
                refs = [ref async for ref in listed_documents(fetcher, f"the fetcher {fetcher_class.__name__}")]
                newest = sorted(refs, key=lambda ref: ref.date or date.min, reverse=True)
                readable = [ref for ref in newest if ref.media_type in READABLE][:download_count]
                downloaded = [await _download(fetcher, ref, limits.max_bytes) for ref in readable]
            except JobError as error:
                raise RecordingError(f"the listing of {site.subdomain} failed ({error})", error.remedy) from error
            except (ClerkError, OSError, psycopg.Error):
                raise
            except Exception as error:
                line = f" ({at})" if (at := own_line(error)) else ""
                raise RecordingError(
                    f"the fetcher {fetcher_class.__name__} raised {describe_error(error)}{line}", "fix the plugin"
                ) from error
    return len(refs), sum(downloaded)


async def _download(fetcher: Fetcher, ref: DocumentRef, max_bytes: int) -> bool:
    """Whether the document could be downloaded. The transport records it; a refusal is recorded as well."""
    try:
        await fetcher.download(ref, Validators(), Sink(io.BytesIO(), max_bytes))
    except FetchError as error:
        info(f"{ref.display_name} was not downloaded: {error}")
        return False
    return True
