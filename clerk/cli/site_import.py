"""`clerk site import` of a file with addresses: detects the system of each town and adds what is sure enough."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clerk import config
from clerk.cli.connection import Connection
from clerk.cli.output import show, table
from clerk.cli.progress_reporter import ProgressReporter
from clerk.cli.site_detect import given_extra
from clerk.db.audit import log_action
from clerk.db.sites import EDITABLE, add_site, read_site
from clerk.plugins import manager
from clerk.sources.detection import complete_address
from clerk.sources.detection_result import ORDER, Confidence, Detection
from clerk.sources.site_validation import InvalidSite, check_subdomain, subdomain_of, validate_site
from clerk.sources.source_lookup import detect_url, shared

_COLUMNS = ("subdomain", "url", *EDITABLE)


@dataclass(frozen=True)
class Town:
    """An entry of the file."""

    line: int
    subdomain: str
    url: str
    values: Mapping[str, Any]


@dataclass
class ImportResult:
    """What came of one entry."""

    line: int
    site: str
    url: str
    result: str
    """`added`, `exists`, `uncertain`, `unknown` or `invalid`."""
    vendor: str | None = None
    confidence: str | None = None
    detail: str = ""


@dataclass
class ImportReport:
    results: list[ImportResult] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return Counter(each.result for each in self.results)

    @property
    def added(self) -> list[str]:
        return [each.site for each in self.results if each.result == "added"]

    @property
    def is_complete(self) -> bool:
        """Whether each town of the file is a site now."""
        return set(self.counts) <= {"added", "exists"}

    def as_dict(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "results": [asdict(each) for each in self.results]}

    def show(self) -> None:
        rows = [
            (str(each.line), each.site, each.result, each.vendor or "", each.confidence or "", each.detail or each.url)
            for each in self.results
        ]
        show(table(rows, ("line", "site", "result", "vendor", "confidence", ""), right=(0,)))


def has_addresses(rows: Iterable[tuple[int, Mapping[str, Any]]]) -> bool:
    return any("url" in row for _, row in rows)


def read_towns(path: Path, rows: list[tuple[int, dict[str, Any]]], connection: Connection | None) -> list[Town]:
    """The entries of a file with addresses. Without a column `subdomain`, it is made of the name: with the state if two
    towns of the file, or a site of another state, have the same name."""
    for number, row in rows:
        if unknown := set(row) - set(_COLUMNS):
            raise InvalidSite(
                f"{path}, entry {number} has unknown columns: {', '.join(sorted(map(str, unknown)))}",
                f"use {', '.join(_COLUMNS)}",
            )
    names = Counter(subdomain_of(str(row.get("name") or "")) for _, row in rows if not row.get("subdomain"))
    towns = []
    for number, row in rows:
        subdomain = str(row.get("subdomain") or "").strip()
        if not subdomain:
            subdomain = subdomain_of(str(row.get("name") or ""))
            known = read_site(connection, subdomain) if subdomain and connection else None
            state = str(row.get("state") or "").strip()
            is_other = known is not None and (known.state or "").lower() != state.lower()
            if state and (names[subdomain] > 1 or is_other):
                subdomain = subdomain_of(f"{row.get('name')} {state}")
        values = {column: value for column, value in row.items() if column in EDITABLE and str(value or "").strip()}
        towns.append(Town(number, subdomain, str(row.get("url") or "").strip(), values))
    return towns


def import_towns(
    settings: config.Settings,
    connection: Connection | None,
    towns: list[Town],
    accepted: Confidence,
    *,
    dry_run: bool,
    quiet: bool,
) -> ImportReport:
    """Detect each town and add it at once, so that an interrupted import continues where it stopped."""
    report = ImportReport()
    plugins = manager.load(settings)
    seen: set[str] = set()
    with ProgressReporter(quiet) as progress:
        for number, town in enumerate(towns):
            progress.update("towns", number, len(towns))
            result = ImportResult(town.line, town.subdomain, town.url, "invalid")
            try:
                if town.subdomain in seen:
                    raise InvalidSite(f"{town.subdomain} occurs twice", "give each a subdomain of its own")
                seen.add(town.subdomain)
                _import_town(settings, plugins, connection, town, accepted, result, dry_run)
            except InvalidSite as error:
                result.detail = str(error)
            report.results.append(result)
        progress.update("towns", len(towns), len(towns))
    return report


def _import_town(
    settings: config.Settings,
    plugins: manager.Plugins,
    connection: Connection | None,
    town: Town,
    accepted: Confidence,
    result: ImportResult,
    dry_run: bool,
) -> None:
    check_subdomain(town.subdomain)
    if connection is not None and read_site(connection, town.subdomain) is not None:
        result.result = "exists"
        return
    values = {"name": town.subdomain, **town.values}
    if not values.get("scraper"):
        if not town.url:
            raise InvalidSite(f"{town.subdomain} has neither url nor scraper", "give one of them")
        given = given_extra(town.subdomain, values.get("extra"))
        detection = detect_url(settings, complete_address(town.url), lambda: shared(connection), given)
        if not _take(detection, accepted, result):
            return
        best = detection.candidates[0]
        extra = {**best.extra, **given}
        values |= {"scraper": best.scraper, "extra": json.dumps(extra, ensure_ascii=False)}
    validated = validate_site(plugins, town.subdomain, values, {})
    if connection is not None:
        with connection.transaction(force_rollback=dry_run):
            add_site(connection, town.subdomain, validated.values)
            log_action(connection, "add site", town.subdomain, scraper=validated.values.get("scraper"))
    result.result, result.vendor = "added", str(values["scraper"])


def _take(detection: Detection, accepted: Confidence, result: ImportResult) -> bool:
    """Whether the best candidate is good enough; otherwise the result says what is not."""
    best = detection.best
    if best is None:
        result.result = "unknown"
        result.detail = "; ".join(f"{each.url}: {each.result}" for each in detection.tried[:3])
        return False
    result.vendor, result.confidence = best.scraper, str(best.confidence)
    if best.missing:
        problem = f"{', '.join(best.missing)} not found"
    elif detection.is_ambiguous:
        problem = "several: " + ", ".join(
            f"{each.scraper} {json.dumps(each.extra)}" for each in detection.candidates[:4]
        )
    elif ORDER.index(best.confidence) > ORDER.index(accepted):
        problem = f"{json.dumps(best.extra)}: {best.evidence[0]}"
    else:
        return True
    result.result, result.detail = "uncertain", problem
    return False
