from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import psycopg_pool
import pytest

from clerk.app import create_app
from clerk.documents.skipped import SkippedEntry, record_skipped
from clerk.documents.storage import SiteStorage, relative_name
from clerk.errors import ClaimLost
from clerk.plugins import manager
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.body import Sink
from clerk.sources.http.client import FetchResult, RateLimitedClient, Validators
from clerk.sources.http.limits import HttpLimits
from clerk.sources.sync import SourceSync, SyncResult
from clerk.sources.vendors import BUILT_IN
from tests.conftest import Databases
from tests.sources.web import Web, run_server

Result = TypeVar("Result")
QUICK = HttpLimits(
    "clerk tests",
    interval=0.0,
    concurrency=8,
    timeout=5.0,
    allow_loopback=True,
    retry_delay=0.01,
    honour_robots=False,
)
"""Without robots.txt, so that the servers of other tests receive only the requests that they are about."""


@pytest.fixture
def web() -> Iterator[Web]:
    with run_server() as web:
        yield web


@dataclass
class HttpClient:
    """The rate-limited client, for tests without an event loop."""

    pool: psycopg_pool.ConnectionPool[Any]
    limits: HttpLimits = QUICK

    def connect(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        return self.pool.connection()

    def with_limits(self, **changes: Any) -> HttpClient:
        return HttpClient(self.pool, replace(self.limits, **changes))

    def run(self, function: Callable[[RateLimitedClient], Awaitable[Result]]) -> Result:
        async def main() -> Result:
            async with RateLimitedClient(self.limits, self.connect) as client:
                return await function(client)

        return asyncio.run(main())

    def download(self, url: str, validators: Validators | None = None) -> tuple[bytes, FetchResult]:
        buffer = io.BytesIO()
        sink = Sink(buffer, self.limits.max_bytes)
        result = self.run(lambda client: client.download(url, validators or Validators(), sink))
        return buffer.getvalue(), result


@pytest.fixture(scope="module")
def pool(server: str, template: str) -> Iterator[psycopg_pool.ConnectionPool[Any]]:
    """Connections to one database for all tests of a module. The fixture `http` empties the tables that they fill."""
    databases = Databases(server)
    options = {"autocommit": True, "options": "-c search_path=public"}
    with psycopg_pool.ConnectionPool(databases.create(template), kwargs=options, min_size=1, max_size=16) as pool:
        yield pool
    databases.drop_all()


@pytest.fixture
def http(pool: psycopg_pool.ConnectionPool[Any]) -> HttpClient:
    http = HttpClient(pool)
    with http.connect() as connection:
        connection.execute("truncate fetch_hosts, fetch_slots, sites cascade")
    return http


@dataclass
class Town:
    """A site with methods to fetch it and to inspect the result."""

    connection: psycopg.Connection[Any]
    http: HttpClient
    storage: SiteStorage
    progress: list[tuple[int, int]] = field(default_factory=list)
    claim_lost: bool = False
    skipped_entries: list[SkippedEntry] = field(default_factory=list)
    skipped_count: int = 0

    @property
    def skipped(self) -> list[str]:
        return [entry.reason for entry in self.skipped_entries]

    def fetch(
        self, fetcher: str | type[Fetcher], extra: Mapping[str, Any], run_started_at: datetime | None = None
    ) -> SyncResult:
        fetcher_class = BUILT_IN[fetcher] if isinstance(fetcher, str) else fetcher
        site = Site("springfield", "Springfield", extra)
        fetcher_class.check(extra)

        async def run(client: RateLimitedClient) -> SyncResult:
            sync = SourceSync(
                "a plugin",
                fetcher_class(site, client),
                self.storage,
                self.http.connect,
                self.http.limits.max_bytes,
                self._report,
                self._record_skipped,
                run_started_at,
            )
            return await sync.run()

        return self.http.run(run)

    def _report(self, done: int, total: int) -> None:
        self.progress.append((done, total))
        if self.claim_lost:
            raise ClaimLost("another worker holds the job")

    def _record_skipped(self, count: int, entries: list[SkippedEntry], is_complete: bool) -> int:
        self.skipped_count, self.skipped_entries = count, entries
        return record_skipped(self.connection, "springfield", 0, count, entries, is_complete)

    def rows(self, columns: str = "kind, meeting, date::text, occurrence, revision") -> list[tuple[Any, ...]]:
        return self.connection.execute(
            f"select {columns} from content_items where kind <> 'archive' order by id"
        ).fetchall()

    def files(self) -> list[str]:
        folder = self.storage.folder
        return sorted(relative_name(path, folder) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def town(http: HttpClient, tmp_path: Path) -> Iterator[Town]:
    with http.connect() as connection:
        connection.execute("insert into sites (subdomain, name) values ('springfield', 'Springfield')")
        yield Town(connection, http, SiteStorage(tmp_path / "storage", "springfield"))


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "plugins"
    folder.mkdir()
    monkeypatch.setenv("CLERK_PLUGINS_DIR", str(folder))
    manager._load.cache_clear()
    yield folder
    manager._load.cache_clear()


Work = Callable[..., None]


@pytest.fixture
def work(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugins: Path) -> Work:
    """Run a worker until no job is left."""
    for name, value in {
        "DATABASE_URL": database,
        "STORAGE_DIR": str(tmp_path / "storage"),
        "CLERK_ALLOW_LOOPBACK": "yes",
        "CLERK_HOST_INTERVAL": "0",
        "CLERK_PLUGIN_TIME_LIMIT": "10",
    }.items():
        monkeypatch.setenv(name, value)

    def run(*queues: str) -> None:
        async def main() -> None:
            app = create_app()
            async with app.open_async():
                await app.run_worker_async(
                    queues=list(queues), wait=False, listen_notify=False, install_signal_handlers=False, concurrency=4
                )

        asyncio.run(main())

    return run
