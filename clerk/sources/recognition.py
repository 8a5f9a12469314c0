"""How the addresses, pages and answers of a vendor are recognised. Each fetcher describes its own in `recognition`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

_OTHER_NAMES = frozenset(
    {
        *("accounts", "admin", "api", "app", "archive-media", "archive-stream", "archive-video", "assets", "auth"),
        *("blog", "cdn", "community", "developers", "docs", "fonts", "get", "go", "help", "images", "img", "info"),
        *("learn", "login", "marketing", "media", "meetings", "portal", "resources", "shop", "sso", "static", "status"),
        *("support", "training", "webapi", "webcontent", "www"),
    }
)
"""Names of hosts that vendors use themselves: www.granicus.com is not the portal of a town."""


class Place(StrEnum):
    """Where in an address the vendor was recognised."""

    HOST = "host"
    """A host of the vendor that is a town's portal."""
    DOCUMENT = "document"
    """A host that stores documents of many towns: it may name the town, but not its portal."""
    PATH = "path"
    """A path that the vendor uses, on any host. Others may use it too."""


@dataclass(frozen=True)
class Recognition:
    """All patterns are regular expressions, and named groups in them are settings of the fetcher."""

    name: str = ""
    """Of the vendor or its product; empty for fetchers that are not recognised."""
    hosts: tuple[str, ...] = ()
    """Patterns for host, path and query of the vendor's own hosts."""
    documents: tuple[str, ...] = ()
    """Likewise for hosts that store documents only."""
    paths: tuple[str, ...] = ()
    """Patterns for path and query on any host. The address before the match is that of the portal; with a group `base`,
    it ends with that group."""
    base: str = "portal"
    """The setting for the address of a portal that is not on a host of the vendor."""
    several: str = ""
    """A setting that is a number or a list of numbers; those of all addresses of a portal are put together."""
    markers: tuple[str, ...] = ()
    """CSS selectors for elements that only the vendor's pages have."""
    fields: tuple[frozenset[str], ...] = ()
    """For each answer of the vendor's API: fields that its entries have."""
    start: str = ""
    """Path below the portal to a page that has the markers and the addresses with settings."""
    probe: str = ""
    """Address of an API, with settings in braces. If it does not return a list, the fetcher is `fallback`."""
    fallback: str = ""
    yields_to: str = ""
    """Another fetcher that is preferred if a web site has both."""


@dataclass(frozen=True)
class AddressMatch:
    """An address in which a vendor was recognised."""

    scraper: str
    place: Place
    base: str
    """The address of the portal; empty if it is not known."""
    extra: Mapping[str, Any]


def match_address(scraper: str, recognition: Recognition, url: str) -> AddressMatch | None:
    """Recognise a vendor by an address alone."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:  # for example http://[broken
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    local = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    origin = f"{parts.scheme}://{parts.netloc}"
    for place, patterns in ((Place.HOST, recognition.hosts), (Place.DOCUMENT, recognition.documents)):
        for pattern in patterns:
            match = re.match(pattern, host + local, re.IGNORECASE)
            if match and not _is_of_vendor(match):
                base = origin if place == Place.HOST else ""
                return AddressMatch(scraper, place, base, _settings(match, recognition))
    for pattern in recognition.paths:
        if match := re.search(pattern, local, re.IGNORECASE):
            groups = match.groupdict()
            base = origin + local[: match.end("base") if groups.get("base") else match.start()]
            extra = {**_settings(match, recognition), recognition.base: base}
            return AddressMatch(scraper, Place.PATH, base, extra)
    return None


def _is_of_vendor(match: re.Match[str]) -> bool:
    """Whether what the address calls the town is a name that vendors use themselves."""
    groups = match.groupdict()
    return (groups.get("client") or groups.get("portal") or "").partition(".")[0].lower() in _OTHER_NAMES


def _settings(match: re.Match[str], recognition: Recognition) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in match.groupdict().items():
        if value is None or name == "base":
            continue
        if name == recognition.several:
            values[name] = [int(value)]
        elif name in ("portal", "page"):
            values[name] = f"https://{value}"
        else:
            values[name] = value
    return values
