"""Validation of sites before they are added or changed. See docs/sites.md.

Names become folders and parts of URLs, so the accepted characters are limited.
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from clerk.db.cadence import DEFAULT as DEFAULT_CADENCE
from clerk.db.cadence import parse_cadence
from clerk.db.sites import EDITABLE
from clerk.documents.sanitize import clean_text, is_subdomain
from clerk.errors import (
    EXIT_USAGE,
    ClerkError,
    InvalidPluginResult,
    PluginError,
    PluginMissing,
)
from clerk.ocr.languages import check_languages
from clerk.plugins.isolation import call_with_timeout
from clerk.plugins.manager import Plugins
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.limits import check_request_settings
from clerk.sources.site_keys import check_keys
from clerk.suggestions import did_you_mean, unknown_name

_DEPLOYERS = "clerk.publish.deployers."
"""Prefix of the names of clerk's own deployers, which is left out."""

_PLACE = re.compile(r"[^\W\d_](?:[^\W\d_]|[ .'-]){0,49}")
_KIND = re.compile(r"[a-z](?:[a-z0-9 -]{0,48}[a-z0-9])?")


class InvalidSite(ClerkError):
    """A value given for a site is invalid."""

    code = "InvalidSite"
    exit_code = EXIT_USAGE

    def __init__(self, what: str, remedy: str, column: str = "") -> None:
        super().__init__(what, remedy)
        self.column = column
        """The column that is invalid; empty if none or several are."""


class InvalidSource(InvalidSite):
    """The folder or address of the documents cannot be used: another one may."""

    code = "InvalidSource"


@dataclass(frozen=True)
class ValidatedSite:
    """Checked values of a site to add or change."""

    subdomain: str
    values: Mapping[str, Any]


def check_subdomain(subdomain: str) -> str:
    if not is_subdomain(subdomain):
        valid = subdomain_of(subdomain)
        raise InvalidSite(
            f"{subdomain[:80]!r} is not a valid subdomain",
            f"{f'use {valid}, or other ' if valid else 'use at most 63 '}lower-case letters, digits, dots and hyphens,"
            " with a letter or digit at both ends and no two dots in a row",
            "subdomain",
        )
    return subdomain


def subdomain_of(name: str) -> str:
    """The key for the name of a town: `St. Paul` is st-paul."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower().replace("'", "")
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:63].strip("-")


def validate_site(
    plugins: Plugins, subdomain: str, values: Mapping[str, Any], before: Mapping[str, Any]
) -> ValidatedSite:
    """Check values by column; an empty value resets the column. `before`: the current row of the site."""
    check_subdomain(subdomain)
    clean: dict[str, Any] = {}
    for column, value in values.items():
        try:
            clean[column] = _clean(column, value)
        except ValueError as error:
            raise InvalidSite(f"{subdomain}: {column} {str(value)[:80]!r} is invalid", str(error), column) from error
    merged = {**before, **clean}
    is_new_source = "scraper" in clean or "extra" in clean
    _check_fetcher(plugins, subdomain, merged.get("scraper"), merged.get("extra"), is_new_source)
    if "extra" in clean:
        _check_names(plugins, subdomain, json.loads(clean["extra"] or "{}"))
    return ValidatedSite(subdomain, clean)


def invalid_columns(values: Mapping[str, Any]) -> dict[str, str]:
    """The columns with an invalid value, each with what to do. Whether the fetcher accepts `extra` is not checked."""
    problems = {}
    for column, value in values.items():
        try:
            _clean(column, value)
        except ValueError as error:
            problems[column] = str(error)
    return problems


def _clean(column: str, value: Any) -> Any:
    is_empty = value is None or str(value).strip() == ""
    return _DEFAULTS.get(column) if is_empty else _CHECKS[column](value)


def _check_fetcher(
    plugins: Plugins, subdomain: str, scraper: str | None, extra: str | None, is_new_source: bool
) -> None:
    """Check that a plugin provides the fetcher and that the fetcher accepts `extra`.

    Keys that nothing reads are refused only in a new source: a site that has one can still be renamed.
    """
    if scraper is None:
        return
    try:
        plugin, fetcher = plugins.resolve("fetcher_class", scraper, Fetcher)
    except PluginMissing as error:
        raise _unknown(subdomain, "scraper", scraper, plugins.labels("fetcher_class"), str(error)) from error
    except (InvalidPluginResult, PluginError) as error:
        raise InvalidSite(f"{subdomain}: {error}", "`clerk plugins` lists what is loaded", "scraper") from error
    try:
        defaults = plugins.call_first("fetcher_extra", label=scraper)
        own = json.loads(extra) if extra else {}
        merged = {**(defaults[1] if defaults else {}), **own}
        if is_new_source:
            _check_keys(subdomain, scraper, fetcher, own, defaults[1] if defaults else {})
        check_request_settings(merged)
        call_with_timeout(plugin, "check", lambda: fetcher.check(merged), expected=(ValueError,))
    except (ValueError, TypeError, PluginError) as error:
        raise InvalidSite(
            f"{subdomain}: the scraper {scraper} does not accept this extra ({error})",
            f"`clerk plugins --fetcher {scraper}` describes extra",
            "extra",
        ) from error


def _check_keys(
    subdomain: str, scraper: str, fetcher: type[Fetcher], extra: Mapping[str, Any], defaults: Mapping[str, Any]
) -> None:
    try:
        check_keys(fetcher, extra, defaults)
    except ValueError as error:
        problem, remedy = error.args
        raise InvalidSite(f"{subdomain}: {problem} of the scraper {scraper}", remedy, "extra") from error


def _check_names(plugins: Plugins, subdomain: str, extra: Mapping[str, Any]) -> None:
    """Check the names of the extractor, the deployers and the languages in `extra`."""
    extractors = plugins.labels("extractor")
    # A known one is not loaded: the model of spaCy may be only on the workers.
    if isinstance(label := extra.get("extractor"), str) and label.partition("-")[0] not in extractors:
        try:
            plugins.resolve("extractor", label)
        except PluginMissing as error:
            raise _unknown(subdomain, "extractor", label, extractors, str(error)) from error
        except PluginError as error:
            raise InvalidSite(f"{subdomain}: {error}", "`clerk plugins` lists what is loaded", "extra") from error
    deployers = extra.get("deploy")
    known = ["none", *(name.removeprefix(_DEPLOYERS) for name, _ in _deployers(plugins))]
    for name in [deployers] if isinstance(deployers, str) else deployers if isinstance(deployers, list) else []:
        if name not in known:
            raise _unknown(subdomain, "deployer", str(name), known)
    if "languages" in extra:
        try:
            check_languages(extra["languages"])
        except ValueError as error:
            raise InvalidSite(f"{subdomain}: {error.args[0]}", error.args[1], "extra") from error


def _deployers(plugins: Plugins) -> Iterator[tuple[str, Callable[[], Any]]]:
    return plugins.implementations("deploy_municipality", subdomain="", check_claim=lambda: None, database_path=Path())


def _unknown(subdomain: str, kind: str, name: str, known: Iterable[str], problem: str = "") -> InvalidSite:
    """The error for an unknown name. `problem`: more about it, if no known name is near."""
    error = unknown_name(kind, name, known)
    column = kind if kind == "scraper" else "extra"
    if problem and not error.remedy.endswith("?"):
        return InvalidSite(f"{subdomain}: {error.what} ({problem})", error.remedy, column)
    return InvalidSite(f"{subdomain}: {error.what}", error.remedy, column)


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


def _cadence(value: Any) -> str:
    return parse_cadence(str(value))


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
    "cadence": _cadence,
}
_DEFAULTS: dict[str, Any] = {"weight": 1, "cadence": DEFAULT_CADENCE}
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
            near = did_you_mean(str(min(unknown, key=str)), ("subdomain", "url", *EDITABLE)) if unknown else None
            raise InvalidSite(f"{path}, entry {number} {problem}", near or f"use subdomain, {', '.join(EDITABLE)}")
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
