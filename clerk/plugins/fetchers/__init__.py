"""clerk's own fetchers, on the same hook as everybody's."""

from __future__ import annotations

from clerk.plugins.fetcher import Fetcher
from clerk.plugins.fetchers.civicplus import CivicPlus
from clerk.plugins.fetchers.directory import Directory
from clerk.plugins.fetchers.legistar import Legistar
from clerk.plugins.fetchers.links import Links
from clerk.plugins.fetchers.manifest import Manifest
from clerk.plugins.fetchers.primegov import PrimeGov
from clerk.plugins.hookspecs import hookimpl

BUILT_IN: dict[str, type[Fetcher]] = {
    "civicplus": CivicPlus,
    "directory": Directory,
    "legistar": Legistar,
    "links": Links,
    "manifest": Manifest,
    "primegov": PrimeGov,
}


@hookimpl
def fetcher_class(label: str) -> type[Fetcher] | None:
    return BUILT_IN.get(label)
