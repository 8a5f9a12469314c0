"""Reports the free space of this machine's disks to the database, so that `clerk status` warns before one is full."""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
from pathlib import Path

import procrastinate.exceptions
import psycopg

from clerk.config import Settings
from clerk.host import list_disks
from clerk.pipeline.connector import ClerkConnector
from clerk.process.holder import short_host

logger = logging.getLogger(__name__)

_INTERVAL = 60.0
_REPORT = """
insert into disk_reports (host, folder, purpose, free_bytes, total_bytes, low_since)
values (%(host)s, %(folder)s, %(purpose)s, %(free)s, %(total)s, case when %(is_low)s then now() end)
on conflict (host, folder) do update
set purpose = excluded.purpose, free_bytes = excluded.free_bytes, total_bytes = excluded.total_bytes,
    reported_at = now(),
    low_since = case when excluded.low_since is not null then coalesce(disk_reports.low_since, now()) end
"""
_DELETE_OLD = "delete from disk_reports where reported_at < now() - interval '1 day'"


def folders_by_purpose(settings: Settings) -> dict[str, Path]:
    """The folders of this machine that jobs, or the embedded database, write to."""
    paths = {
        "storage": settings.storage_dir,
        "published archives": settings.publish_dir,
        "database": settings.home if settings.database_url is None else None,
        "cache": None if isinstance(settings.storage_dir, Path) else settings.cache_dir,
        "temporary files": Path(tempfile.gettempdir()),
    }
    return {purpose: path for purpose, path in paths.items() if isinstance(path, Path)}


async def report_disks(connector: ClerkConnector) -> None:
    disks = await asyncio.to_thread(list_disks, folders_by_purpose(connector.settings))
    host = short_host(socket.gethostname())
    for disk in disks:
        await connector.execute_query_async(
            query=_REPORT,
            host=host,
            folder=str(disk.folder),
            purpose=disk.purpose,
            free=disk.free,
            total=disk.total,
            is_low=disk.is_low,
        )


async def report_regularly(connector: ClerkConnector) -> None:
    """A worker's side task. A report that fails is repeated a minute later: jobs do not depend on it."""
    while True:
        try:
            await report_disks(connector)
            await connector.execute_query_async(query=_DELETE_OLD)
        except (OSError, psycopg.Error, procrastinate.exceptions.ConnectorException) as error:
            logger.warning("the free space of the disks was not reported (%s: %s)", type(error).__name__, error)
        await asyncio.sleep(_INTERVAL)
