"""The search form of the dashboard and of `clerk serve`: its URL parameters, the pages of results and the facets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any
from urllib.parse import urlencode

from clerk.archive.query import InvalidQuery, Query, parse
from clerk.archive.query_parser import MAX_LENGTH
from clerk.archive.search import Facets, SearchRequest, Sort
from clerk.documents.kinds import KINDS
from clerk.documents.sanitize import is_subdomain

PAGE_SIZE = 20
FILTERS = ("site", "body", "kind", "year", "since", "added_since")
_MAX_PAGE = 1_000_000
_SHOWN_VALUES = 8
_LISTED_VALUES = 1000


@dataclass(frozen=True)
class FacetValue:
    value: str
    count: int
    url: str
    is_chosen: bool


@dataclass(frozen=True)
class Facet:
    name: str
    title: str
    shown: list[FacetValue]
    more: list[FacetValue]
    """The values that are listed on request."""
    unlisted: int
    """The number of further values."""


@dataclass(frozen=True)
class SearchForm:
    """URL parameters. Empty: no filter."""

    q: str = ""
    site: str = ""
    body: str = ""
    kind: str = ""
    year: str = ""
    since: str = ""
    added_since: str = ""
    sort: str = Sort.RELEVANCE
    page: int = 1

    @classmethod
    def read(cls, values: Mapping[str, str]) -> tuple[SearchForm, list[str]]:
        """The form, and what is wrong with values that are ignored."""
        raw = {name: values.get(name, "").replace("\0", "").strip() for name in asdict(cls())}
        warnings = []
        site = raw["site"].lower()[:100]
        if site and not is_subdomain(site):
            warnings.append(f"“{site}” is not a valid site name, so all archives were searched")
            site = ""
        for name in ("since", "added_since"):
            if raw[name] and _parse_day(raw[name]) is None:
                warnings.append(f"“{raw[name][:100]}” is not a date such as 2024-05-31, so it was ignored")
                raw[name] = ""
        if raw["year"] and not (raw["year"].isascii() and raw["year"].isdigit() and len(raw["year"]) == 4):
            warnings.append(f"“{raw['year'][:100]}” is not a year, so it was ignored")
            raw["year"] = ""
        if raw["kind"] and raw["kind"] not in KINDS:
            warnings.append(f"“{raw['kind'][:100]}” is not a kind of document, so all kinds were searched")
            raw["kind"] = ""
        if raw["sort"] and raw["sort"] not in list(Sort):
            warnings.append(f"“{raw['sort'][:100]}” is not a sort order, so the results are sorted by relevance")
            raw["sort"] = ""
        return cls(
            raw["q"][: MAX_LENGTH + 1],
            site,
            raw["body"][:500],
            raw["kind"],
            raw["year"],
            raw["since"],
            raw["added_since"],
            raw["sort"] or Sort.RELEVANCE,
            _parse_page(raw["page"]),
        ), warnings

    def parse_query(self) -> tuple[Query | None, str]:
        """The query, or None and what is wrong with it."""
        if not self.q:
            return None, ""
        try:
            return parse(self.q), ""
        except InvalidQuery as error:
            return None, str(error)

    def request(self, query: Query, size: int | None = PAGE_SIZE) -> SearchRequest:
        """`size` None: all results."""
        return SearchRequest(
            query,
            since=_parse_day(self.since),
            added_since=_parse_day(self.added_since),
            body=self.body,
            kind=self.kind,
            year=self.year,
            sort=Sort(self.sort),
            offset=(self.page - 1) * (size or 0),
            limit=size,
        )

    def url(self, path: str, **changes: Any) -> str:
        """The URL of the same search with some values changed, from its first page on."""
        changed = replace(self, **({"page": 1} | changes))
        defaults = asdict(SearchForm())
        query = urlencode({name: value for name, value in asdict(changed).items() if value != defaults[name]})
        return f"{path}?{query}" if query else path

    def facets(self, found: Facets, path: str, without_site: bool = False) -> list[Facet]:
        """Links that add a filter, or remove the chosen one. `without_site`: the path names the site."""
        titles = {"site": "Sites", "body": "Bodies", "kind": "Kinds", "year": "Years"}
        if without_site:
            del titles["site"]
        counts = found.as_dict()
        return [self._facet(name, title, counts[name], path) for name, title in titles.items()]

    def _facet(self, name: str, title: str, counts: dict[str, int], path: str) -> Facet:
        chosen = getattr(self, name)
        values = [
            FacetValue(value, count, self.url(path, **{name: "" if value == chosen else value}), value == chosen)
            for value, count in counts.items()
        ]
        return Facet(
            name,
            title,
            values[:_SHOWN_VALUES],
            values[_SHOWN_VALUES:_LISTED_VALUES],
            max(0, len(values) - _LISTED_VALUES),
        )


def count_pages(total: int, size: int = PAGE_SIZE) -> int:
    return max(1, -(-total // size))


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _parse_page(value: str) -> int:
    return min(max(1, int(value)), _MAX_PAGE) if value.isascii() and value.isdigit() and len(value) < 8 else 1
