"""The environment, and a `.env` file in the current folder, become one frozen dataclass, read once.

A real environment variable wins over the file. Adding a setting means adding a row to `SETTINGS` and a field
to `Settings`; `clerk config` and docs/settings.md follow from the rows.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from clerk import values
from clerk.errors import SettingError


@dataclass(frozen=True)
class Setting:
    name: str
    field: str
    parse: Callable[[str], Any]
    """Raises ValueError(problem, remedy), which must not repeat a secret."""
    default: str
    """As one would write it, or `none`; for a computed one, how it reads in documentation."""
    help: str
    show: Callable[[Any], str] = str
    is_computed: bool = False
    """The default follows from other settings: `load` knows how."""


@dataclass(frozen=True)
class Settings:
    database_url: str | None
    home: Path
    storage_dir: Path
    postgres_idle_timeout: float
    lock_timeout: float
    keep_jobs_hours: float
    dashboard_token: str | None
    plugins_dir: Path | None
    plugin_time_limit: float
    user_agent: str
    host_interval: float
    host_concurrency: int
    request_timeout: float
    download_time_limit: float
    max_download_bytes: int
    allow_loopback: bool
    keep_images: str
    ocr_dpi: float
    ocr_memory_bytes: int
    ocr_page_seconds: float
    ocr_max_pages: int
    ocr_failed_percent: float
    extractor: str
    publish_dir: Path
    keep_versions: int
    deploy_command: tuple[str, ...] | None
    deploy_time_limit: float
    redis_url: str | None
    origins: Mapping[str, str]
    """Setting name → where its value came from: `environment`, the path of a folder or file, or `default`."""


SETTINGS = (
    Setting(
        "DATABASE_URL",
        "database_url",
        values.database_url,
        "an embedded Postgres under CLERK_HOME",
        "The database: postgresql://user:password@host:5432/name (postgres:// is accepted too).",
        values.redact_url,
        is_computed=True,
    ),
    Setting(
        "CLERK_HOME",
        "home",
        values.folder,
        ".clerk in the current folder",
        "Where clerk keeps what is its own: the embedded Postgres and, unless set, the storage.",
        is_computed=True,
    ),
    Setting(
        "STORAGE_DIR",
        "storage_dir",
        values.folder,
        "storage under CLERK_HOME",
        "Where PDFs, page texts, page images and each site's meetings.db are kept.",
        is_computed=True,
    ),
    Setting(
        "CLERK_POSTGRES_IDLE_TIMEOUT",
        "postgres_idle_timeout",
        values.seconds,
        "10",
        "Seconds the embedded Postgres waits for another user after its last one has left.",
    ),
    Setting(
        "CLERK_LOCK_TIMEOUT",
        "lock_timeout",
        values.seconds,
        "2",
        "Seconds a migration waits for a lock before it lets others through and tries again.",
    ),
    Setting(
        "CLERK_KEEP_JOBS_HOURS",
        "keep_jobs_hours",
        values.hours,
        "24",
        "Hours for which finished jobs are kept in the queue's tables before they are removed.",
    ),
    Setting(
        "CLERK_DASHBOARD_TOKEN",
        "dashboard_token",
        str,
        "none",
        "What visitors of the dashboard must show. Needed as soon as it listens beyond this machine.",
        lambda token: "(none)" if token is None else "***",
    ),
    Setting(
        "CLERK_PLUGINS_DIR",
        "plugins_dir",
        values.existing_folder,
        "none",
        "A folder of plugins: Python files and packages that lie directly in it. Also --plugins-dir.",
        lambda path: "(none)" if path is None else str(path),
    ),
    Setting(
        "CLERK_PLUGIN_TIME_LIMIT",
        "plugin_time_limit",
        values.seconds,
        "900",
        "Seconds after which a plugin that shows no sign of life is given up.",
    ),
    Setting(
        "CLERK_USER_AGENT",
        "user_agent",
        values.header_value,
        "clerk (archives of public meetings)",
        "How clerk names itself to the sites it fetches from. Say here how you can be reached.",
    ),
    Setting(
        "CLERK_HOST_INTERVAL",
        "host_interval",
        values.interval,
        "0.5",
        "Seconds between two requests to one host, counted over all workers; 0 for none.",
    ),
    Setting(
        "CLERK_HOST_CONCURRENCY",
        "host_concurrency",
        values.positive_int,
        "2",
        "Requests to one host at a time, counted over all workers.",
    ),
    Setting(
        "CLERK_REQUEST_TIMEOUT",
        "request_timeout",
        values.seconds,
        "30",
        "Seconds to wait for a connection, and for each next piece of an answer.",
    ),
    Setting(
        "CLERK_DOWNLOAD_TIME_LIMIT",
        "download_time_limit",
        values.seconds,
        "900",
        "Seconds that one answer may take altogether, however slowly it trickles in.",
    ),
    Setting(
        "CLERK_MAX_DOWNLOAD_MB",
        "max_download_bytes",
        values.megabytes,
        "500",
        "Megabytes of one document at most, as received and as decompressed.",
        lambda size: str(size // 1_000_000),
    ),
    Setting(
        "CLERK_ALLOW_LOOPBACK",
        "allow_loopback",
        values.yes_or_no,
        "no",
        "Whether fetchers may also fetch from this machine (127.0.0.1, ::1). For tests and demonstrations.",
        lambda allowed: "yes" if allowed else "no",
    ),
    Setting(
        "CLERK_KEEP_IMAGES",
        "keep_images",
        values.image_policy,
        "scanned",
        "Of which pages an image is kept for readers: scanned (those that had to be looked at), all or none.",
    ),
    Setting(
        "CLERK_OCR_DPI",
        "ocr_dpi",
        values.dpi,
        "150",
        "Dots per inch at which pages are read. More than 200 costs time and gains nothing on usual documents.",
    ),
    Setting(
        "CLERK_OCR_MEMORY_MB",
        "ocr_memory_bytes",
        values.memory,
        "1024",
        "Megabytes that reading one document may take; one that needs more fails with PdfMemory.",
        lambda size: str(size >> 20),
    ),
    Setting(
        "CLERK_OCR_PAGE_SECONDS",
        "ocr_page_seconds",
        values.seconds,
        "30",
        "Seconds of CPU time that one page may take, and all failing pages of a document together.",
    ),
    Setting(
        "CLERK_OCR_MAX_PAGES",
        "ocr_max_pages",
        values.positive_int,
        "10000",
        "Pages that a document may have; one with more fails with PdfTooLarge.",
    ),
    Setting(
        "CLERK_OCR_FAILED_PERCENT",
        "ocr_failed_percent",
        values.percent,
        "10",
        "Up to this share of failed pages a document counts as read, with a note; above it, it fails.",
    ),
    Setting(
        "CLERK_EXTRACTOR",
        "extractor",
        values.label,
        "rules",
        "Which extractor finds people and votes; a site's extra may name another.",
    ),
    Setting(
        "CLERK_PUBLISH_DIR",
        "publish_dir",
        values.folder,
        "_published under STORAGE_DIR",
        "Where the deployer `local` publishes: a folder per site, with its versions and a link to the current one.",
        is_computed=True,
    ),
    Setting(
        "CLERK_KEEP_VERSIONS",
        "keep_versions",
        values.positive_int,
        "5",
        "Versions of a site's archive that the deployer `local` keeps, the current one included.",
    ),
    Setting(
        "CLERK_DEPLOY_COMMAND",
        "deploy_command",
        values.command,
        "none",
        "What the deployer `command` runs; the path of the database is added. Split into words as a shell would.",
        lambda words: "(none)" if words is None else shlex.join(words),
    ),
    Setting(
        "CLERK_DEPLOY_TIME_LIMIT",
        "deploy_time_limit",
        values.seconds,
        "900",
        "Seconds after which that command is ended, with all that it started.",
    ),
    Setting(
        "REDIS_URL",
        "redis_url",
        values.redis_url,
        "none",
        "The older system's Redis, for `clerk legacy`: redis://:password@host:6379/0. Nothing else reads it.",
        lambda url: "(none)" if url is None else values.redact_url(url),
    ),
)


def load(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> Settings:
    """Read all settings. An empty value counts as not set, as in compose files and shells."""
    folder = folder or _current_folder()
    file = folder / ".env"
    sources: dict[str, Mapping[str, str | None]] = {"environment": environ}
    if credentials := environ.get("CREDENTIALS_DIRECTORY"):
        sources[credentials] = _from_credentials(Path(credentials))
    sources[str(file)] = _from_file(file)
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        origins[setting.name] = "default"
        if not setting.is_computed:
            found[setting.field] = None if setting.default == "none" else setting.parse(setting.default)
        for origin, source in sources.items():
            text = (source.get(setting.name) or "").strip()
            if not text:
                continue
            try:
                found[setting.field] = setting.parse(text)
            except ValueError as error:
                problem, remedy = error.args
                raise SettingError(f"{setting.name} (from {origin}) {problem}", remedy) from error
            origins[setting.name] = origin
            break
    found.setdefault("database_url", None)
    home = found.setdefault("home", folder.absolute() / ".clerk")
    storage = found.setdefault("storage_dir", home / "storage")
    found.setdefault("publish_dir", storage / "_published")
    return Settings(**found, origins=origins)


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingError("the current folder is gone", "go to one that exists") from error


def _from_credentials(folder: Path) -> Mapping[str, str | None]:
    """A file per setting, as systemd's LoadCredential= lays them out: secrets that no child process inherits."""
    try:
        there = {setting.name for setting in SETTINGS} & {file.name for file in folder.iterdir()}
        return {name: (folder / name).read_text(encoding="utf-8") for name in there}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"the credentials in {folder} cannot be read ({error})", "mend them, or unset CREDENTIALS_DIRECTORY"
        ) from error


def _from_file(file: Path) -> Mapping[str, str | None]:
    try:
        return dotenv_values(file) if file.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} cannot be read ({error})", "mend it or move it away") from error
