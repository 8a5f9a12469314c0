"""The environment, and a `.env` file in the current folder, become one frozen dataclass, read once.

A real environment variable wins over the file. Adding a setting means adding a row to `SETTINGS` and a field
to `Settings`; `clerk config` and docs/settings.md follow from the rows.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
from dotenv import dotenv_values
from psycopg import conninfo

from clerk.errors import SettingError


@dataclass(frozen=True)
class Setting:
    name: str
    field: str
    parse: Callable[[str], Any]
    """Raises ValueError(problem, remedy), which must not repeat a secret."""
    default: str
    """How the default reads in documentation; the value itself is computed in `load`."""
    help: str
    show: Callable[[Any], str] = str


@dataclass(frozen=True)
class Settings:
    database_url: str | None
    home: Path
    storage_dir: Path
    postgres_linger: float
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
    origins: Mapping[str, str]
    """Setting name → where its value came from: `environment`, a file's path, or `default`."""


def _url(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("postgres", "postgresql"):
        raise ValueError("is not a Postgres URL", "write postgresql://user:password@host:5432/name")
    url = f"postgresql://{rest}"
    # What libpq says of a wrong one, or does with it, may lay bare a part of the password: it is not asked twice.
    credentials = rest.partition("?")[0].rpartition("@")[0]
    if not set("@/").isdisjoint(credentials) or not _is_understood(url):
        raise ValueError(
            "is not a URL that Postgres understands",
            "write postgresql://user:password@host:5432/name, with special characters as %XX (@ is %40, / is %2F)",
        )
    return url


def _is_understood(url: str) -> bool:
    try:
        ports = str(conninfo.conninfo_to_dict(url).get("port", ""))
    except psycopg.ProgrammingError:
        return False
    return all(port.isdecimal() for port in ports.split(",") if port)


def _folder(text: str) -> Path:
    try:
        path = Path(text).expanduser().absolute()
        usable = path.is_dir() or not path.exists()
    except (OSError, RuntimeError) as error:
        raise ValueError(f"names {text}, which cannot be looked at ({error})", "name a folder of your own") from error
    if not usable:
        raise ValueError(f"names {path}, which is not a folder", "name a folder, or one that can be made")
    return path


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86_400:
        raise ValueError(f"is {text!r}", "write a number of seconds above 0, at most 86400")
    return seconds


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not 0 < hours <= 87_600:
        raise ValueError(f"is {text!r}", "write a number of hours above 0, at most 87600")
    return hours


def _existing_folder(text: str) -> Path:
    path = _folder(text)
    if not path.is_dir():
        raise ValueError(f"names {path}, which does not exist", "make that folder, or name another")
    return path


def _pause(text: str) -> float:
    return 0.0 if text == "0" else _seconds(text)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise ValueError(f"is {text!r}", "write a whole number above 0, at most 1000000")
    return int(text)


def _megabytes(text: str) -> int:
    return _whole(text) * 1_000_000


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError(f"is {text!r}", "write yes or no")
    return text.lower() in ("1", "true", "yes", "on")


def _which_images(text: str) -> str:
    if text.lower() not in ("scanned", "all", "none"):
        raise ValueError(f"is {text!r}", "write scanned, all or none")
    return text.lower()


def _dpi(text: str) -> float:
    dots = _whole(text)
    if not 72 <= dots <= 600:
        raise ValueError(f"is {text!r}", "write a number of dots per inch from 72 to 600")
    return float(dots)


def _memory(text: str) -> int:
    megabytes = _whole(text)
    if megabytes < 256:
        raise ValueError(f"is {text!r}", "write a number of megabytes, at least 256")
    return megabytes << 20


def _percent(text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise ValueError(f"is {text!r}", "write a number from 0 to 100")
    return percent


def _header_value(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise ValueError("has characters that cannot stand in an HTTP header", "write it in printable ASCII")
    return text


def _label(text: str) -> str:
    if not text.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"is {text!r}", "write the name of an extractor, such as rules")
    return text


def _command(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot be taken apart ({error})", "quote it as for a shell") from error
    if not words or not words[0]:
        raise ValueError("names no program", "write a program and its arguments")
    return tuple(words)


def without_password(url: str | None) -> str:
    """The URL as it may be shown. The password can hide in the query too, where libpq reads it.

    By hand, since a password with an unescaped / ? # or @ in it is just what a URL parser takes apart wrongly.
    """
    if url is None:
        return ""
    scheme, separator, rest = url.partition("://")
    end = rest.partition("?")[0].rfind("@")
    if end < 0 and (with_question_mark := re.match(r"[^/@]*@", rest)):
        end = with_question_mark.end() - 1
    credentials, place = rest[: end + 1], rest[end + 1 :]
    credentials = re.sub(r":.*@", ":***@", credentials, flags=re.DOTALL)
    place, question_mark, query = place.partition("?")
    pairs = [
        f"{key}=***" if "password" in unquote(key).lower() else pair
        for pair in query.split("&")
        for key in [pair.partition("=")[0]]
    ]
    return f"{scheme}{separator}{credentials}{place}{question_mark}{'&'.join(pairs)}"


SETTINGS = (
    Setting(
        "DATABASE_URL",
        "database_url",
        _url,
        "an embedded Postgres under CLERK_HOME",
        "The database: postgresql://user:password@host:5432/name (postgres:// is accepted too).",
        without_password,
    ),
    Setting(
        "CLERK_HOME",
        "home",
        _folder,
        ".clerk in the current folder",
        "Where clerk keeps what is its own: the embedded Postgres and, unless set, the storage.",
    ),
    Setting(
        "STORAGE_DIR",
        "storage_dir",
        _folder,
        "storage under CLERK_HOME",
        "Where PDFs, page texts, page images and each site's meetings.db are kept.",
    ),
    Setting(
        "CLERK_POSTGRES_LINGER",
        "postgres_linger",
        _seconds,
        "10",
        "Seconds the embedded Postgres waits for another user after its last one has left.",
    ),
    Setting(
        "CLERK_LOCK_TIMEOUT",
        "lock_timeout",
        _seconds,
        "2",
        "Seconds a migration waits for a lock before it lets others through and tries again.",
    ),
    Setting(
        "CLERK_KEEP_JOBS_HOURS",
        "keep_jobs_hours",
        _hours,
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
        _existing_folder,
        "none",
        "A folder of plugins: Python files and packages that lie directly in it. Also --plugins-dir.",
        lambda path: "(none)" if path is None else str(path),
    ),
    Setting(
        "CLERK_PLUGIN_TIME_LIMIT",
        "plugin_time_limit",
        _seconds,
        "900",
        "Seconds after which a plugin that shows no sign of life is given up.",
    ),
    Setting(
        "CLERK_USER_AGENT",
        "user_agent",
        _header_value,
        "clerk (archives of public meetings)",
        "How clerk names itself to the sites it fetches from. Say here how you can be reached.",
    ),
    Setting(
        "CLERK_HOST_INTERVAL",
        "host_interval",
        _pause,
        "0.5",
        "Seconds between two requests to one host, counted over all workers; 0 for none.",
    ),
    Setting(
        "CLERK_HOST_CONCURRENCY",
        "host_concurrency",
        _whole,
        "2",
        "Requests to one host at a time, counted over all workers.",
    ),
    Setting(
        "CLERK_REQUEST_TIMEOUT",
        "request_timeout",
        _seconds,
        "30",
        "Seconds to wait for a connection, and for each next piece of an answer.",
    ),
    Setting(
        "CLERK_DOWNLOAD_TIME_LIMIT",
        "download_time_limit",
        _seconds,
        "900",
        "Seconds that one answer may take altogether, however slowly it trickles in.",
    ),
    Setting(
        "CLERK_MAX_DOWNLOAD_MB",
        "max_download_bytes",
        _megabytes,
        "500",
        "Megabytes of one document at most, as received and as decompressed.",
        lambda size: str(size // 1_000_000),
    ),
    Setting(
        "CLERK_ALLOW_LOOPBACK",
        "allow_loopback",
        _yes_or_no,
        "no",
        "Whether fetchers may also fetch from this machine (127.0.0.1, ::1). For tests and demonstrations.",
        lambda allowed: "yes" if allowed else "no",
    ),
    Setting(
        "CLERK_KEEP_IMAGES",
        "keep_images",
        _which_images,
        "scanned",
        "Of which pages an image is kept for readers: scanned (those that had to be looked at), all or none.",
    ),
    Setting(
        "CLERK_OCR_DPI",
        "ocr_dpi",
        _dpi,
        "150",
        "Dots per inch at which pages are read. More than 200 costs time and gains nothing on usual documents.",
    ),
    Setting(
        "CLERK_OCR_MEMORY_MB",
        "ocr_memory_bytes",
        _memory,
        "1024",
        "Megabytes that reading one document may take; one that needs more fails with PdfMemory.",
        lambda size: str(size >> 20),
    ),
    Setting(
        "CLERK_OCR_PAGE_SECONDS",
        "ocr_page_seconds",
        _seconds,
        "30",
        "Seconds of CPU time that one page may take, and all failing pages of a document together.",
    ),
    Setting(
        "CLERK_OCR_MAX_PAGES",
        "ocr_max_pages",
        _whole,
        "10000",
        "Pages that a document may have; one with more fails with PdfTooLarge.",
    ),
    Setting(
        "CLERK_OCR_FAILED_PERCENT",
        "ocr_failed_percent",
        _percent,
        "10",
        "Up to this share of failed pages a document counts as read, with a note; above it, it fails.",
    ),
    Setting(
        "CLERK_EXTRACTOR",
        "extractor",
        _label,
        "rules",
        "Which extractor finds people and votes; a site's extra may name another.",
    ),
    Setting(
        "CLERK_PUBLISH_DIR",
        "publish_dir",
        _folder,
        "_published under STORAGE_DIR",
        "Where the deployer `local` publishes: a folder per site, with its versions and a link to the current one.",
    ),
    Setting(
        "CLERK_KEEP_VERSIONS",
        "keep_versions",
        _whole,
        "5",
        "Versions of a site's archive that the deployer `local` keeps, the current one included.",
    ),
    Setting(
        "CLERK_DEPLOY_COMMAND",
        "deploy_command",
        _command,
        "none",
        "What the deployer `command` runs; the path of the database is added. Split into words as a shell would.",
        lambda words: "(none)" if words is None else shlex.join(words),
    ),
    Setting(
        "CLERK_DEPLOY_TIME_LIMIT",
        "deploy_time_limit",
        _seconds,
        "900",
        "Seconds after which that command is ended, with all that it started.",
    ),
)


def load(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> Settings:
    """Read all settings. An empty value counts as not set, as in compose files and shells."""
    folder = folder or _current_folder()
    file = folder / ".env"
    sources = {"environment": environ, str(file): _from_file(file)}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        origins[setting.name] = "default"
        for origin, source in sources.items():
            text = (source.get(setting.name) or "").strip()
            if not text:
                continue
            try:
                values[setting.field] = setting.parse(text)
            except ValueError as error:
                problem, remedy = error.args
                raise SettingError(f"{setting.name} (from {origin}) {problem}", remedy) from error
            origins[setting.name] = origin
            break
    home = values.get("home", folder.absolute() / ".clerk")
    return Settings(
        database_url=values.get("database_url"),
        home=home,
        storage_dir=values.get("storage_dir", home / "storage"),
        postgres_linger=values.get("postgres_linger", 10.0),
        lock_timeout=values.get("lock_timeout", 2.0),
        keep_jobs_hours=values.get("keep_jobs_hours", 24.0),
        dashboard_token=values.get("dashboard_token"),
        plugins_dir=values.get("plugins_dir"),
        plugin_time_limit=values.get("plugin_time_limit", 900.0),
        user_agent=values.get("user_agent", "clerk (archives of public meetings)"),
        host_interval=values.get("host_interval", 0.5),
        host_concurrency=values.get("host_concurrency", 2),
        request_timeout=values.get("request_timeout", 30.0),
        download_time_limit=values.get("download_time_limit", 900.0),
        max_download_bytes=values.get("max_download_bytes", 500_000_000),
        allow_loopback=values.get("allow_loopback", False),
        extractor=values.get("extractor", "rules"),
        publish_dir=values.get("publish_dir", values.get("storage_dir", home / "storage") / "_published"),
        keep_versions=values.get("keep_versions", 5),
        deploy_command=values.get("deploy_command"),
        deploy_time_limit=values.get("deploy_time_limit", 900.0),
        keep_images=values.get("keep_images", "scanned"),
        ocr_dpi=values.get("ocr_dpi", 150.0),
        ocr_memory_bytes=values.get("ocr_memory_bytes", 1 << 30),
        ocr_page_seconds=values.get("ocr_page_seconds", 30.0),
        ocr_max_pages=values.get("ocr_max_pages", 10_000),
        ocr_failed_percent=values.get("ocr_failed_percent", 10.0),
        origins=origins,
    )


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingError("the current folder is gone", "go to one that exists") from error


def _from_file(file: Path) -> Mapping[str, str | None]:
    try:
        return dotenv_values(file) if file.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} cannot be read ({error})", "mend it or move it away") from error
