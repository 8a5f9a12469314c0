"""Validation of sites before they are added or changed. See docs/sites.md.

Names become folders and parts of URLs, so the accepted characters are limited.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from clerk.db.sites import EDITABLE
from clerk.documents.sanitize import clean_text, is_subdomain
from clerk.errors import (
    EXIT_USAGE,
    ClerkError,
    InvalidPluginResult,
    PluginError,
    PluginMissing,
)
from clerk.plugins.isolation import call_with_timeout
from clerk.plugins.manager import Plugins
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.limits import check_request_settings

_PLACE = re.compile(r"[^\W\d_](?:[^\W\d_]|[ .'-]){0,49}")
_KIND = re.compile(r"[a-z](?:[a-z0-9 -]{0,48}[a-z0-9])?")


class InvalidSite(ClerkError):
    """A value given for a site is invalid."""

    code = "InvalidSite"
    exit_code = EXIT_USAGE


@dataclass(frozen=True)
class ValidatedSite:
    """Checked values of a site to add or change."""

    subdomain: str
    values: Mapping[str, Any]


def check_subdomain(subdomain: str) -> str:
    if not is_subdomain(subdomain):
        raise InvalidSite(
            f"{subdomain[:80]!r} is not a valid subdomain",
            "use at most 63 lower-case letters, digits, dots and hyphens, with a letter or digit at both ends"
            " and no two dots in a row",
        )
    return subdomain


def validate_site(
    plugins: Plugins, subdomain: str, values: Mapping[str, Any], before: Mapping[str, Any]
) -> ValidatedSite:
    """Check values by column; an empty value resets the column. `before`: the current row of the site."""
    check_subdomain(subdomain)
    clean: dict[str, Any] = {}
    for column, value in values.items():
        try:
            empty = value is None or str(value).strip() == ""
            clean[column] = _DEFAULTS.get(column) if empty else _CHECKS[column](value)
        except ValueError as error:
            raise InvalidSite(f"{subdomain}: {column} {str(value)[:80]!r} is invalid", str(error)) from error
    merged = {**before, **clean}
    _check_fetcher(plugins, subdomain, merged.get("scraper"), merged.get("extra"))
    return ValidatedSite(subdomain, clean)


def _check_fetcher(plugins: Plugins, subdomain: str, scraper: str | None, extra: str | None) -> None:
    """Check that a plugin provides the fetcher and that the fetcher accepts `extra`."""
    if scraper is None:
        return
    try:
        plugin, fetcher = plugins.resolve("fetcher_class", scraper, Fetcher)
    except (PluginMissing, InvalidPluginResult, PluginError) as error:
        raise InvalidSite(f"{subdomain}: {error}", "`clerk plugins` lists what is loaded") from error
    try:
        defaults = plugins.call_first("fetcher_extra", label=scraper)
        merged = {**(defaults[1] if defaults else {}), **(json.loads(extra) if extra else {})}
        check_request_settings(merged)
        call_with_timeout(plugin, "check", lambda: fetcher.check(merged), expected=(ValueError,))
    except (ValueError, TypeError, PluginError) as error:
        raise InvalidSite(
            f"{subdomain}: the scraper {scraper} does not accept this extra ({error})",
            f"`clerk plugins --fetcher {scraper}` describes extra",
        ) from error


def _name(value: Any) -> str:
    if not isinstance(value, str) or clean_text(value) != value.strip():
        raise ValueError("use one line of at most 200 characters, without double spaces")
    return value.strip()


def _place(value: Any) -> str:
    if not isinstance(value, str) or not _PLACE.fullmatch(value.strip()):
        raise ValueError("use a name or code of at most 50 letters, such as CA or New York")
    return value.strip()


def _kind(value: Any) -> str:
    if not isinstance(value, str) or not _KIND.fullmatch(value.strip().lower()):
        raise ValueError("use one or two words in lower case, such as city, county or school-board")
    return value.strip().lower()


def _label(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]{1,100}", value.strip()):
        raise ValueError("use the label of a fetcher; `clerk plugins` lists them")
    return value.strip()


def _year(value: Any) -> int:
    text = str(value).strip()
    if not text.isascii() or not text.isdecimal() or not 1800 <= int(text) <= date.today().year + 1:
        raise ValueError("use a year from 1800 on, such as 2015")
    return int(text)


def _weight(value: Any) -> int:
    text = str(value).strip()
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 100:
        raise ValueError("use a whole number from 1 to 100")
    return int(text)


def _degrees(limit: float) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        try:
            degrees = float(str(value))
        except ValueError:
            degrees = limit + 1
        if not -limit <= degrees <= limit:
            raise ValueError(f"use degrees between -{limit:g} and {limit:g}")
        return str(value).strip()

    return check


def _extra(value: Any) -> str:
    try:
        values = json.loads(value) if isinstance(value, str) else value
        if not isinstance(values, dict):
            raise ValueError
        return json.dumps(values, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise ValueError('use a JSON object, such as {"client": "springfield"}') from error


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "state": _place,
    "kind": _kind,
    "scraper": _label,
    "start_year": _year,
    "extra": _extra,
    "country": _place,
    "lat": _degrees(90),
    "lng": _degrees(180),
    "weight": _weight,
}
_DEFAULTS = {"weight": 1}
"""What an empty value means; None for the other columns."""
assert set(_CHECKS) == set(EDITABLE)


def read_rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Read numbered entries from CSV with a header, a JSON list of objects, or JSON Lines."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSite(f"{path} cannot be read ({error})", "give a CSV or JSON file in UTF-8") from error
    return _json_rows(path, text) if text.lstrip().startswith(("[", "{")) else _csv_rows(path, text)


def parse_sites(path: Path, rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The subdomain and columns of each entry of a file."""
    sites = []
    for number, row in rows:
        unknown = set(row) - {"subdomain", *EDITABLE}
        if "subdomain" not in row or unknown:
            problem = f"has unknown columns: {', '.join(sorted(map(str, unknown)))}" if unknown else "has no subdomain"
            raise InvalidSite(f"{path}, entry {number} {problem}", f"use subdomain, {', '.join(EDITABLE)}")
        sites.append((str(row["subdomain"]), {column: value for column, value in row.items() if column != "subdomain"}))
    return sites


def _csv_rows(path: Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    try:
        reader = csv.DictReader(text.splitlines(), strict=True)
        return [(reader.line_num, {str(key).strip(): value for key, value in row.items()}) for row in reader]
    except csv.Error as error:
        raise InvalidSite(f"{path} is not valid CSV ({error})", "correct the file, or use JSON") from error


def _json_rows(path: Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    try:
        is_list = text.lstrip().startswith("[")
        entries = json.loads(text) if is_list else [json.loads(line) for line in text.splitlines() if line]
    except ValueError as error:
        raise InvalidSite(
            f"{path} is not valid JSON ({error})", "use a list of objects, or an object per line"
        ) from error
    if not all(isinstance(entry, dict) for entry in entries):
        raise InvalidSite(f"{path} has entries that are not objects", "use a list of objects, or an object per line")
    return list(enumerate(entries, 1))
