"""Built-in fetchers."""

from __future__ import annotations

from clerk.plugins.hookspecs import hookimpl
from clerk.sources.fetcher import Fetcher
from clerk.sources.vendors.civicplus import CivicPlus
from clerk.sources.vendors.directory import Directory
from clerk.sources.vendors.legistar import Legistar
from clerk.sources.vendors.links import Links
from clerk.sources.vendors.manifest import Manifest
from clerk.sources.vendors.primegov import PrimeGov

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
