"""What a source has, before a site is added: the checks of a folder, and the listing. For `site add` and `demo`."""

from __future__ import annotations

import getpass
import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clerk import config
from clerk.cli.connection import open_if_any
from clerk.cli.output import show, table, text
from clerk.cli.progress_reporter import ProgressReporter
from clerk.cli.source import listing_rows
from clerk.documents.media_types import STORED_EXTENSIONS, media_type_of
from clerk.errors import JobError
from clerk.humanize import join_words, pluralize
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.rate_limit import Connect
from clerk.sources.listing import SourceListing
from clerk.sources.site_validation import InvalidSource
from clerk.sources.source_lookup import SourceFailed, list_site, shared
from clerk.suggestions import near_names

_ELSEWHERE = "--no-check adds it if only the workers have it"
_UNDATED = "; if it has none, the document is skipped, or with --undated modified dated by its file"
_MAX_TYPES = 5


def local_path(fetcher: type[Fetcher], extra: dict[str, Any]) -> Path | None:
    """The folder or file on this machine that is the source; None for a source on the web."""
    keys = [key for key, kind in fetcher.extra_types.items() if kind is Path and extra.get(key)]
    return Path(str(extra[keys[0]])) if keys else None


def check_path(path: Path, *, is_folder: bool) -> None:
    """Raise InvalidSource unless this user can read the folder, or the file."""
    kind = "folder" if is_folder else "file"
    if not path.exists():
        near = near_names(path.name, _siblings(path), 1)
        remedy = f"did you mean {path.parent / near[0]}?" if near else f"give one that exists; {_ELSEWHERE}"
        raise InvalidSource(f"no {kind} {path}", remedy)
    if path.is_dir() != is_folder:
        what = "a file, not a folder" if is_folder else "a folder, not a file"
        remedy = "give the folder that it is in" if is_folder else "give --scraper directory for a folder"
        raise InvalidSource(f"{path} is {what}", remedy)
    if not os.access(path, os.R_OK | (os.X_OK if is_folder else 0)):
        raise InvalidSource(f"{path} cannot be read by {getpass.getuser()}", f"give that user the right; {_ELSEWHERE}")


def _siblings(path: Path) -> list[str]:
    try:
        return [each.name for each in path.parent.iterdir()]
    except OSError:
        return []  # then there is nothing to suggest


def list_local(
    settings: config.Settings, site: Site, scraper: str, path: Path, time_limit: float, quiet: bool
) -> SourceListing:
    """The documents of a folder, or of a list on this machine. Raises InvalidSource if there are none."""
    check_path(path, is_folder=scraper == "directory")
    # No requests are made.
    listing = _list(settings, None, site, scraper, time_limit, quiet)
    if not listing.documents:
        raise InvalidSource(
            f"{path} has no documents{_describe_skipped(listing, path)}", f"clerk reads {_extensions()}"
        )
    return listing


def list_remote(settings: config.Settings, site: Site, scraper: str, time_limit: float, quiet: bool) -> SourceListing:
    """The documents of a source on the web. Raises SourceFailed if it cannot be listed, or lists none."""
    with open_if_any(settings) as connection:
        listing = _list(settings, shared(connection), site, scraper, time_limit, quiet)
    if not listing.documents and listing.is_complete:
        skipped = f" ({listing.reasons[0]})" if listing.reasons else ""
        problem = f"{site.subdomain}: {scraper} lists no documents with these settings{skipped}"
        raise SourceFailed(
            problem, "check the addresses and the other settings of the source; --no-check does not look"
        )
    return listing


def _list(
    settings: config.Settings, connect: Connect | None, site: Site, scraper: str, time_limit: float, quiet: bool
) -> SourceListing:
    try:
        # Skipped entries are shown with the listing, so they are not logged as well.
        with _log_only_errors(Fetcher.__module__), ProgressReporter(quiet) as progress:
            return list_site(
                settings,
                connect,
                site,
                scraper,
                time_limit,
                lambda number: progress.update("documents listed", number, None),
            )
    except JobError as error:
        problem = f"{site.subdomain}: {scraper} could not be listed ({error.code}: {error})"
        raise SourceFailed(problem, error.remedy) from error


@contextmanager
def _log_only_errors(logger_name: str) -> Iterator[None]:
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def show_listing(listing: SourceListing, path: Path | None = None, *, all_reasons: bool = False) -> None:
    """Print the documents, kinds and dates, and what is skipped and why. `all_reasons`: not only the first."""
    is_folder = path is not None and path.is_dir()
    rows = listing_rows(listing, _UNDATED if is_folder else "")
    if path is not None and is_folder and (others := _other_types(path)):
        files = pluralize(sum(others.values()), "file")
        note = f"{files} of other types left out ({_join_types(others)}): clerk reads {_extensions()}"
        rows.append(("note", text(note)))
    if all_reasons:
        rows += [("skipped", text(reason)) for reason in listing.reasons]
    show(table(rows))


def _describe_skipped(listing: SourceListing, path: Path) -> str:
    others = _other_types(path) if path.is_dir() else Counter()
    if listing.unreadable:
        return f", only {join_words(list(listing.unreadable))}, such as {listing.unreadable_names[0]}"
    if listing.reasons:
        return f" that can be read ({listing.reasons[0]})"
    return f", only {_join_types(others)}" if others else ": it is empty" if path.is_dir() else ""


def _other_types(folder: Path) -> Counter[str]:
    """The number of files by extension, of types that the fetcher `directory` leaves out."""
    types: Counter[str] = Counter()
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith((".", "~$")) and not media_type_of(name, ""):
                types[Path(name).suffix.lower() or "without an extension"] += 1
    return types


def _join_types(types: Counter[str]) -> str:
    shown = [f"{number:,} {extension}" for extension, number in types.most_common(_MAX_TYPES)]
    further = sum(types.values()) - sum(number for _, number in types.most_common(_MAX_TYPES))
    return join_words([*shown, *([f"{further:,} others"] if further else [])])


def _extensions() -> str:
    return join_words([f".{extension}" for extension in STORED_EXTENSIONS.values()])
