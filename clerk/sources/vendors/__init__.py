"""Built-in fetchers."""

from __future__ import annotations

from clerk.plugins.hookspecs import hookimpl
from clerk.sources.fetcher import Fetcher
from clerk.sources.vendors.boardbook import BoardBook
from clerk.sources.vendors.boarddocs import BoardDocs
from clerk.sources.vendors.civicclerk import CivicClerk
from clerk.sources.vendors.civicplus import CivicPlus
from clerk.sources.vendors.civicplus_archive import CivicPlusArchive
from clerk.sources.vendors.civicweb import CivicWeb
from clerk.sources.vendors.directory import Directory
from clerk.sources.vendors.escribe import Escribe
from clerk.sources.vendors.granicus import Granicus
from clerk.sources.vendors.iqm2 import Iqm2
from clerk.sources.vendors.legistar import Legistar
from clerk.sources.vendors.legistar_calendar import LegistarCalendar
from clerk.sources.vendors.links import Links
from clerk.sources.vendors.manifest import Manifest
from clerk.sources.vendors.municode import Municode
from clerk.sources.vendors.novusagenda import NovusAgenda
from clerk.sources.vendors.onbase import OnBase
from clerk.sources.vendors.primegov import PrimeGov
from clerk.sources.vendors.simbli import Simbli

BUILT_IN: dict[str, type[Fetcher]] = {
    "boardbook": BoardBook,
    "boarddocs": BoardDocs,
    "civicclerk": CivicClerk,
    "civicplus": CivicPlus,
    "civicplus-archive": CivicPlusArchive,
    "civicweb": CivicWeb,
    "directory": Directory,
    "escribe": Escribe,
    "granicus": Granicus,
    "iqm2": Iqm2,
    "legistar": Legistar,
    "legistar-calendar": LegistarCalendar,
    "links": Links,
    "manifest": Manifest,
    "municode": Municode,
    "novusagenda": NovusAgenda,
    "onbase": OnBase,
    "primegov": PrimeGov,
    "simbli": Simbli,
}


@hookimpl
def provided_labels(hook: str) -> list[str] | None:
    return list(BUILT_IN) if hook == "fetcher_class" else None


@hookimpl
def fetcher_class(label: str) -> type[Fetcher] | None:
    return BUILT_IN.get(label)
