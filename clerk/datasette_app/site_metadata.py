"""Names and metadata of the sites, read from Postgres in the background so that requests never wait for it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from clerk.config import DATABASE_URL
from clerk.db.connection import connect_to
from clerk.db.sites import SiteRow, read_sites
from clerk.errors import ClerkError

logger = logging.getLogger(__name__)

_REFRESH_INTERVAL = 60.0
"""Seconds."""


class SiteMetadata:
    """Cached site metadata. While the database is unreachable, the last known values are used."""

    def __init__(self, read: Callable[[], list[SiteRow]]) -> None:
        self._read = read
        self._sites: dict[str, SiteRow] = {}

    @classmethod
    def from_postgres(cls, find_url: Callable[[], str | None], setting: str = DATABASE_URL) -> SiteMetadata:
        """`find_url` is called until it returns the URL of a database: there may be none yet. `setting`: the name of
        the one that has it, for messages."""
        url: str | None = None

        def read() -> list[SiteRow]:
            nonlocal url
            url = url or find_url()
            if url is None:
                return []
            with connect_to(url, setting=setting) as connection:
                return read_sites(connection)

        return cls(read)

    @contextlib.contextmanager
    def refreshed_in_background(self) -> Iterator[None]:
        self.refresh()
        stop = threading.Event()
        thread = threading.Thread(target=self._refresh_until, args=[stop], daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def refresh(self) -> None:
        try:
            self._sites = {site.subdomain: site for site in self._read()}
        except (ClerkError, psycopg.Error) as error:
            logger.warning("site names cannot be read from the database: %s", error)

    def _refresh_until(self, stop: threading.Event) -> None:
        while not stop.wait(_REFRESH_INTERVAL):
            self.refresh()

    def name(self, subdomain: str) -> str:
        site = self._sites.get(subdomain)
        return site.name if site and site.name else subdomain

    def state(self, subdomain: str) -> str:
        site = self._sites.get(subdomain)
        return site.state if site and site.state else ""

    def metadata(self, subdomain: str) -> dict[str, Any]:
        """Datasette metadata: title, description, source, about and licence, as far as they are known."""
        site = self._sites.get(subdomain) or SiteRow(subdomain)
        extra = _extra(site)
        place = ", ".join(filter(None, (site.kind, site.state, site.country)))
        fields = {
            "title": self.name(subdomain),
            "description": f"Records of public meetings: {place}" if place else "Records of public meetings",
            "source": extra.get("source"),
            "source_url": extra.get("source_url") or extra.get("site"),
            "about": extra.get("about"),
            "about_url": extra.get("about_url"),
            "license": extra.get("license"),
            "license_url": extra.get("license_url"),
        }
        # Other values, such as the path of a local folder, must not be published.
        return {
            key: value
            for key, value in fields.items()
            if isinstance(value, str) and (not key.endswith("_url") or value.startswith(("https://", "http://")))
        }


def _extra(site: SiteRow) -> dict[str, Any]:
    try:
        return site.extra_values
    except ValueError:  # a row of legacy clerk may hold invalid JSON
        return {}
