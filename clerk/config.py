"""The environment, and a `.env` file in the current folder, become one frozen dataclass, read once.

A real environment variable wins over the file. Adding a setting means adding a row to `SETTINGS` and a field
to `Settings`; `clerk config` and docs/settings.md follow from the rows.
"""

from __future__ import annotations

import os
import re
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
