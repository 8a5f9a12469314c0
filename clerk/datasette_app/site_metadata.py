"""Who the sites are, for the readers of their archives: asked of Postgres now and then, never while a reader waits."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from clerk.db.connection import connect_to
from clerk.db.sites import SiteRow, read_sites
from clerk.errors import ClerkError

logger = logging.getLogger(__name__)

_EVERY = 60.0
"""Seconds after which a new name is seen."""


class SiteMetadata:
    """A database that goes away takes nothing from readers: what was known stays."""

    def __init__(self, read: Callable[[], list[SiteRow]]) -> None:
        self._read = read
        self._sites: dict[str, SiteRow] = {}

    @classmethod
    def from_postgres(cls, url: str) -> SiteMetadata:
        def read() -> list[SiteRow]:
            with connect_to(url) as connection:
                return read_sites(connection)

        return cls(read)

    @contextlib.contextmanager
    def kept_fresh(self) -> Iterator[None]:
        self.refresh()
        over = threading.Event()
        thread = threading.Thread(target=self._refresh_until, args=[over], daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def refresh(self) -> None:
        try:
            self._sites = {site.subdomain: site for site in self._read()}
        except (ClerkError, psycopg.Error) as error:
            logger.warning("the names of the sites cannot be read: %s", error)

    def _refresh_until(self, over: threading.Event) -> None:
        while not over.wait(_EVERY):
            self.refresh()

    def name(self, subdomain: str) -> str:
        site = self._sites.get(subdomain)
        return site.name if site and site.name else subdomain

    def state(self, subdomain: str) -> str:
        site = self._sites.get(subdomain)
        return site.state if site and site.state else ""

    def metadata(self, subdomain: str) -> dict[str, Any]:
        """As Datasette has it: title, description, source and licence, as far as they are known."""
        site = self._sites.get(subdomain) or SiteRow(subdomain)
        extra = _extra(site)
        place = ", ".join(filter(None, (site.kind, site.state, site.country)))
        found = {
            "title": self.name(subdomain),
            "description": f"Meeting records: {place}" if place else "Meeting records",
            "source": extra.get("source"),
            "source_url": extra.get("source_url") or extra.get("site"),
            "license": extra.get("license"),
            "license_url": extra.get("license_url"),
        }
        # An address of another kind, such as a folder of this machine, is nobody's business.
        return {
            key: value
            for key, value in found.items()
            if isinstance(value, str) and (not key.endswith("_url") or value.startswith(("https://", "http://")))
        }


def _extra(site: SiteRow) -> dict[str, Any]:
    try:
        return site.extra_values
    except ValueError:  # an older system's
        return {}
