"""Settings, from environment variables, systemd credentials and a `.env` file in the current folder, in that order.

Settings that run programs (`executes_code`) are not read from `.env`.

To add a setting, add a row to `SETTINGS` and a field to `Settings`. `clerk config` and docs/settings.md are generated
from the rows.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import psycopg
from dotenv import dotenv_values
from psycopg import conninfo

from clerk.errors import SettingError
from clerk.object_storage.path import StoragePath, object_root
from clerk.object_storage.url import BucketUrl, is_bucket_url, parse_bucket_url

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


PREFIX = "CLERK_"
DATABASE_URL = "DATABASE_URL"
DIRECT_DATABASE_URL = "CLERK_DIRECT_DATABASE_URL"
"""Of the settings that only clerk has."""

DEFAULT_OCR_DPI = 130
"""On 36 civic pages and 10 pages of other scans 130 dpi had no more wrong characters than 150, for less CPU time."""


@dataclass(frozen=True)
class Setting:
    name: str
    field: str
    parse: Callable[[str], Any]
    """Raises ValueError(problem, remedy)."""
    default: str
    """As a user would write it, or `none`. If computed: its description for the documentation."""
    help: str
    show: Callable[[Any], str] = str
    empty: Any = None
    """The value if the default is `none`."""
    is_computed: bool = False
    """`load` computes the default from other settings."""
    executes_code: bool = False
    """Not read from `.env`: whoever can write to the current folder could otherwise run programs as its user."""


@dataclass(frozen=True)
class Settings:
    database_url: str | None
    direct_database_url: str | None
    home: Path
    storage_dir: StoragePath
    cache_dir: Path
    cache_bytes: int
    postgres_idle_timeout: float
    database_timeout: float
    lock_timeout: float
    maintain_hour: int | None
    keep_jobs_hours: float
    dashboard_token: str | None
    plugins_dir: Path | None
    plugin_time_limit: float
    user_agent: str
    contact: str | None
    robots: str
    host_interval: float
    host_concurrency: int
    request_timeout: float
    download_time_limit: float
    max_download_bytes: int
    run_requests: int
    run_bytes: int
    run_hours: float
    min_free_bytes: int
    allow_loopback: bool
    allow_networks: tuple[Network, ...]
    keep_images: str
    ocr_engine: str
    ocr_dpi: float
    ocr_memory_bytes: int
    ocr_page_seconds: float
    ocr_max_pages: int
    ocr_failed_percent: float
    extractor: str
    publish_dir: StoragePath
    keep_versions: int
    deploy_command: tuple[str, ...] | None
    deploy_time_limit: float
    public_url: str | None
    smtp_host: str | None
    smtp_port: int
    smtp_tls: str
    smtp_user: str | None
    smtp_password: str | None
    smtp_from: str | None
    digest_hour: int
    redis_url: str | None
    origins: Mapping[str, str]
    """Setting name → the origin of its value: `environment`, the path of a folder or file, or `default`."""

    @property
    def is_pooled(self) -> bool:
        """Whether connections of DATABASE_URL have no session of their own."""
        return self.direct_database_url != self.database_url

    @property
    def direct_database_setting(self) -> str:
        """The name of the setting that has `direct_database_url`, for messages."""
        return DIRECT_DATABASE_URL if self.is_pooled else DATABASE_URL

    @property
    def user_agent_with_contact(self) -> str:
        """The User-Agent header of requests: clerk (archives of public meetings; +https://example.org)."""
        if self.contact is None:
            return self.user_agent
        contact = f"+{self.contact}" if self.contact.startswith("http") else self.contact
        is_comment = self.user_agent.endswith(")")
        return f"{self.user_agent[:-1]}; {contact})" if is_comment else f"{self.user_agent} ({contact})"


# --- Parsers of values. Each raises ValueError(problem, remedy); the problem must not contain a secret.


def database_url(text: str) -> str:
    """A Postgres URL. libpq's other form, "host=… dbname=…", becomes one, so that its password is hidden too."""
    if re.match(r"\w+\s*=", text):
        return _url_from_keywords(text)
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("postgres", "postgresql"):
        raise ValueError(
            "is not a Postgres URL",
            'write postgresql://user:password@host:5432/name, or "host=… user=… password=… dbname=…"',
        )
    url = f"postgresql://{rest}"
    # libpq's error message for an invalid URL may contain a part of the password, so it is not shown.
    credentials = rest.partition("?")[0].rpartition("@")[0]
    if not set("@/").isdisjoint(credentials) or not _is_valid(url):
        raise ValueError(
            "is not a valid Postgres URL",
            "write postgresql://user:password@host:5432/name, with special characters as %XX (@ is %40, / is %2F)",
        )
    return url


def _url_from_keywords(text: str) -> str:
    try:
        keywords = conninfo.conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        keywords = {}
    url = "postgresql:///?" + urlencode({key: str(value) for key, value in keywords.items()}, quote_via=quote)
    if not keywords or not _is_valid(url):
        # libpq's own message may contain the password.
        raise ValueError(
            "is not a valid connection string of libpq",
            "write host=… port=5432 user=… password=… dbname=…, with values that contain spaces in single quotes",
        )
    return url


def _is_valid(url: str) -> bool:
    try:
        ports = str(conninfo.conninfo_to_dict(url).get("port", ""))
    except psycopg.ProgrammingError:
        return False
    return all(port.isdecimal() for port in ports.split(",") if port)


def redis_url(text: str) -> str:
    if not text.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("is not a Redis URL", "write redis://:password@host:6379/0, or unix:///path?db=0")
    return text


def folder(text: str) -> Path:
    try:
        path = Path(text).expanduser().absolute()
        is_usable = path.is_dir() or not path.exists()
    except (OSError, RuntimeError) as error:
        raise ValueError(f"names {text}, which cannot be accessed ({error})", "name a folder of your own") from error
    if not is_usable:
        raise ValueError(f"names {path}, which is not a folder", "name a folder")
    return path


def storage(text: str) -> Path | BucketUrl:
    """`load` makes the root of a storage from the address of a bucket: it needs the cache's settings for that."""
    if not is_bucket_url(text):
        return folder(text)
    if importlib.util.find_spec("obstore") is None:
        raise ValueError("names a bucket, which needs a package that is not installed", "install clerk[cloud]")
    return parse_bucket_url(text)


def _show_storage(path: StoragePath) -> str:
    if isinstance(path, Path):
        return str(path)
    url = path.bucket.url
    return replace(url, prefix="/".join(filter(None, (url.prefix, path.key)))).with_options


def seconds(text: str) -> float:
    return _number(text, 86_400, "seconds")


def hours(text: str) -> float:
    return _number(text, 87_600, "hours")


def _number(text: str, maximum: int, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= maximum:
        raise ValueError(f"is {text!r}", f"write a number of {unit} above 0, at most {maximum}")
    return number


def existing_folder(text: str) -> Path:
    path = folder(text)
    if not path.is_dir():
        raise ValueError(f"names {path}, which does not exist", "create that folder, or name another")
    return path


def interval(text: str) -> float:
    return 0.0 if text == "0" else seconds(text)


def positive_int(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise ValueError(f"is {text!r}", "write a whole number above 0, at most 1000000")
    return int(text)


def megabytes(text: str) -> int:
    return positive_int(text) * 1_000_000


def yes_or_no(text: str) -> bool:
    if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError(f"is {text!r}", "write yes or no")
    return text.lower() in ("1", "true", "yes", "on")


def networks(text: str) -> tuple[Network, ...]:
    try:
        parsed = tuple(ipaddress.ip_network(part) for part in text.replace(",", " ").split())
    except ValueError as error:
        raise ValueError(f"is {text!r} ({error})", "write networks such as 10.1.2.0/24, separated by commas") from error
    if any(network.prefixlen == 0 for network in parsed):
        raise ValueError(f"is {text!r}, which has every address", "name the networks of your sources only")
    return parsed


def image_policy(text: str) -> str:
    if text.lower() not in ("scanned", "all", "none"):
        raise ValueError(f"is {text!r}", "write scanned, all or none")
    return text.lower()


def dpi(text: str) -> float:
    dots = positive_int(text)
    if not 72 <= dots <= 600:
        raise ValueError(f"is {text!r}", "write a number of dots per inch from 72 to 600")
    return float(dots)


def memory(text: str) -> int:
    megabytes = positive_int(text)
    if megabytes < 256:
        raise ValueError(f"is {text!r}", "write a number of megabytes, at least 256")
    return megabytes << 20


def percent(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 100:
        raise ValueError(f"is {text!r}", "write a number from 0 to 100")
    return share


def header_value(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise ValueError("has characters that an HTTP header cannot have", "write it in printable ASCII")
    return text


def contact(text: str) -> str:
    """A mail address or a URL, which becomes part of the User-Agent header."""
    try:
        return web_url(text) if text.startswith("http") else mail_address(text)
    except ValueError as error:
        remedy = "write a mail address such as name@example.org, or a URL such as https://example.org/about"
        raise ValueError(error.args[0], remedy) from error


def robots_policy(text: str) -> str:
    if text.lower() not in ("honour", "ignore"):
        raise ValueError(f"is {text!r}", "write honour or ignore")
    return text.lower()


def label(text: str) -> str:
    return _label(text, "an extractor, such as rules")


def engine_label(text: str) -> str:
    return _label(text, "an OCR engine, such as pytesseract")


def _label(text: str, what: str) -> str:
    if not text.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"is {text!r}", f"write the name of {what}")
    return text


def command(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot be split into words ({error})", "quote it as for a shell") from error
    if not words or not words[0]:
        raise ValueError("names no program", "write a program and its arguments")
    return tuple(words)


def web_url(text: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9._:\[\]-]+(?:/[!-~]*)?", text) or set("?#") & set(text):
        raise ValueError(f"is {text!r}", "write an address such as https://archives.example.org, without ? and #")
    return text.rstrip("/")


def host_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", text):
        raise ValueError(f"is {text!r}", "write a host name or an IP address, without port")
    return text


def port(text: str) -> int:
    number = positive_int(text)
    if number > 65_535:
        raise ValueError(f"is {text!r}", "write a port from 1 to 65535")
    return number


def tls_mode(text: str) -> str:
    if text.lower() not in ("starttls", "implicit", "none"):
        raise ValueError(f"is {text!r}", "write starttls, implicit or none")
    return text.lower()


def hour(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 23:
        raise ValueError(f"is {text!r}", "write an hour from 0 to 23")
    return int(text)


def mail_address(text: str) -> str:
    """One address without a display name, in ASCII: it becomes part of mail headers and of the SMTP dialogue."""
    local, _, domain = text.rpartition("@")
    label = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    is_local = re.fullmatch(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*", local)
    if (
        is_local is None
        or re.fullmatch(rf"{label}(?:\.{label})*", domain) is None
        or len(text) > 254
        or len(local) > 64
    ):
        raise ValueError(f"is {text!r}", "write one mail address such as name@example.org, without a display name")
    return text


def redact_url(url: str | None) -> str:
    """The URL without its passwords, which libpq also accepts in the query.

    Not with a URL parser: it would split a password with an unescaped / ? # or @ at the wrong place.
    """
    if url is None:
        return ""
    scheme, separator, rest = url.partition("://")
    end = rest.partition("?")[0].rfind("@")
    if end < 0 and (with_question_mark := re.match(r"[^/@]*@", rest)):
        end = with_question_mark.end() - 1
    credentials, location = rest[: end + 1], rest[end + 1 :]
    credentials = re.sub(r":.*@", ":***@", credentials, flags=re.DOTALL)
    location, question_mark, query = location.partition("?")
    pairs = [
        f"{key}=***" if "password" in unquote(key).lower() else pair
        for pair in query.split("&")
        for key in [pair.partition("=")[0]]
    ]
    return f"{scheme}{separator}{credentials}{location}{question_mark}{'&'.join(pairs)}"


SETTINGS = (
    Setting(
        DATABASE_URL,
        "database_url",
        database_url,
        "an embedded Postgres under CLERK_HOME",
        'The database: postgresql://user:password@host:5432/name, or libpq\'s "host=… user=… password=… dbname=…".'
        " With standbys: host1:5432,host2:5432/name?target_session_attrs=read-write.",
        redact_url,
        is_computed=True,
    ),
    Setting(
        DIRECT_DATABASE_URL,
        "direct_database_url",
        database_url,
        "DATABASE_URL",
        "The same database without a pooler. Required if DATABASE_URL leads to PgBouncer in transaction mode.",
        redact_url,
        is_computed=True,
    ),
    Setting(
        "CLERK_HOME",
        "home",
        folder,
        ".clerk in the current folder",
        "The folder for the embedded Postgres and, unless STORAGE_DIR is set, for the storage.",
        is_computed=True,
    ),
    Setting(
        "STORAGE_DIR",
        "storage_dir",
        storage,
        "storage under CLERK_HOME",
        "The folder for PDFs, page texts, page images and each site's meetings.db, or a bucket:"
        " s3://bucket/prefix?endpoint=https://…, gs://bucket/prefix or az://container/prefix (needs clerk[cloud]).",
        _show_storage,
        is_computed=True,
    ),
    Setting(
        "CLERK_CACHE_DIR",
        "cache_dir",
        folder,
        "cache under CLERK_HOME",
        "If STORAGE_DIR is a bucket: the local folder for copies of its files, and for files that are being made.",
        is_computed=True,
    ),
    Setting(
        "CLERK_CACHE_MB",
        "cache_bytes",
        megabytes,
        "10000",
        "Megabytes that the copies may use, approximately. Those that were used least recently are deleted first.",
        lambda size: str(size // 1_000_000),
    ),
    Setting(
        "CLERK_POSTGRES_IDLE_TIMEOUT",
        "postgres_idle_timeout",
        seconds,
        "10",
        "Seconds that the embedded Postgres keeps running after the last process that uses it has ended.",
    ),
    Setting(
        "CLERK_DATABASE_TIMEOUT",
        "database_timeout",
        seconds,
        "300",
        "Seconds that a worker waits for a database that is unreachable, starting or read-only, as during a failover;"
        " then it exits and is restarted.",
    ),
    Setting(
        "CLERK_LOCK_TIMEOUT",
        "lock_timeout",
        seconds,
        "2",
        "Seconds that a migration waits for a lock before it releases its own locks and retries.",
    ),
    Setting(
        "CLERK_MAINTAIN_HOUR",
        "maintain_hour",
        hour,
        "none",
        "The hour, in UTC, at which workers do every day what `clerk db maintain` does. Without it they never do. The"
        " workers of the queue coordinator need it, with a database user who owns the tables.",
        lambda hour: "(none)" if hour is None else str(hour),
    ),
    Setting(
        "CLERK_KEEP_JOBS_HOURS",
        "keep_jobs_hours",
        hours,
        "24",
        "Hours after which finished jobs are deleted from the queue's tables.",
    ),
    Setting(
        "CLERK_DASHBOARD_TOKEN",
        "dashboard_token",
        str,
        "none",
        "The token that the dashboard asks for. Required if it listens on other addresses than this machine's own.",
        lambda token: "(none)" if token is None else "***",
    ),
    Setting(
        "CLERK_PLUGINS_DIR",
        "plugins_dir",
        existing_folder,
        "none",
        "A folder of plugins: Python files and packages directly in it. Also --plugins-dir.",
        lambda path: "(none)" if path is None else str(path),
        executes_code=True,
    ),
    Setting(
        "CLERK_PLUGIN_TIME_LIMIT",
        "plugin_time_limit",
        seconds,
        "900",
        "Seconds without a heartbeat after which a plugin's call fails with PluginTimeout.",
    ),
    Setting(
        "CLERK_USER_AGENT",
        "user_agent",
        header_value,
        "clerk (archives of public meetings)",
        "The User-Agent header of clerk's requests. CLERK_CONTACT is added to it.",
    ),
    Setting(
        "CLERK_CONTACT",
        "contact",
        contact,
        "none",
        "A mail address or URL by which publishers can reach you. Part of the User-Agent header.",
        lambda contact: contact or "(none)",
    ),
    Setting(
        "CLERK_ROBOTS",
        "robots",
        robots_policy,
        "honour",
        "Whether fetchers honour robots.txt and its Crawl-delay, or ignore it: only with the publishers' permission.",
    ),
    Setting(
        "CLERK_HOST_INTERVAL",
        "host_interval",
        interval,
        "0.5",
        "Seconds between two requests to one host, over all workers; 0 for none. A robots.txt or a vendor may"
        " ask for more.",
    ),
    Setting(
        "CLERK_HOST_CONCURRENCY",
        "host_concurrency",
        positive_int,
        "2",
        "Concurrent requests to one host, over all workers.",
    ),
    Setting(
        "CLERK_REQUEST_TIMEOUT",
        "request_timeout",
        seconds,
        "30",
        "Seconds to wait for a connection, and for each part of a response.",
    ),
    Setting(
        "CLERK_DOWNLOAD_TIME_LIMIT",
        "download_time_limit",
        seconds,
        "900",
        "Seconds that one response may take in total.",
    ),
    Setting(
        "CLERK_MAX_DOWNLOAD_MB",
        "max_download_bytes",
        megabytes,
        "500",
        "Maximum size of a document in megabytes, as received and decompressed.",
        lambda size: str(size // 1_000_000),
    ),
    Setting(
        "CLERK_RUN_REQUESTS",
        "run_requests",
        positive_int,
        "20000",
        "Requests that the fetch of one run may send. Beyond this limit or one of the next three, the run ends as"
        " partial, and the next run continues.",
    ),
    Setting(
        "CLERK_RUN_MB",
        "run_bytes",
        megabytes,
        "50000",
        "Megabytes that the fetch of one run may receive.",
        lambda size: str(size // 1_000_000),
    ),
    Setting(
        "CLERK_RUN_HOURS",
        "run_hours",
        hours,
        "1.5",
        "Hours that the fetch of one run may send requests. Less than time_limit of fetch in the table stage_policy (2"
        " hours), after which the job is aborted.",
    ),
    Setting(
        "CLERK_MIN_FREE_MB",
        "min_free_bytes",
        megabytes,
        "1000",
        "Megabytes of the disk of STORAGE_DIR (for a bucket: of CLERK_CACHE_DIR) that a fetch leaves free; 5 percent of"
        " a smaller disk.",
        lambda size: str(size // 1_000_000),
    ),
    Setting(
        "CLERK_ALLOW_LOOPBACK",
        "allow_loopback",
        yes_or_no,
        "no",
        "Whether fetchers may download from this machine (127.0.0.1, ::1). For tests and demonstrations.",
        lambda allowed: "yes" if allowed else "no",
    ),
    Setting(
        "CLERK_ALLOW_NETWORKS",
        "allow_networks",
        networks,
        "none",
        "Networks that fetchers may download from although they are private, on any port: 10.1.2.0/24, fd12:3456::/64.",
        lambda allowed: ", ".join(map(str, allowed)) or "(none)",
        empty=(),
    ),
    Setting(
        "CLERK_KEEP_IMAGES",
        "keep_images",
        image_policy,
        "scanned",
        "Pages whose image is kept: scanned (those that needed OCR), all or none.",
    ),
    Setting(
        "CLERK_OCR_ENGINE",
        "ocr_engine",
        engine_label,
        "tesserocr, or pytesseract where tesserocr is not installed",
        "The OCR engine: tesserocr, pytesseract, or one of a plugin.",
        is_computed=True,
    ),
    Setting(
        "CLERK_OCR_DPI",
        "ocr_dpi",
        dpi,
        str(DEFAULT_OCR_DPI),
        "Dots per inch at which pages are rendered for OCR. More than 200 takes longer without better text, usually.",
    ),
    Setting(
        "CLERK_OCR_MEMORY_MB",
        "ocr_memory_bytes",
        memory,
        "1024",
        "Megabytes of memory that OCR of one document may use; one that needs more fails with PdfMemory.",
        lambda size: str(size >> 20),
    ),
    Setting(
        "CLERK_OCR_PAGE_SECONDS",
        "ocr_page_seconds",
        seconds,
        "30",
        "Seconds of CPU time that OCR may use for one page, and for all failed pages of a document together.",
    ),
    Setting(
        "CLERK_OCR_MAX_PAGES",
        "ocr_max_pages",
        positive_int,
        "10000",
        "Maximum number of pages of a document; one with more fails with PdfTooLarge.",
    ),
    Setting(
        "CLERK_OCR_FAILED_PERCENT",
        "ocr_failed_percent",
        percent,
        "10",
        "Percentage of failed pages up to which a document is accepted, with a note; above it, it fails.",
    ),
    Setting(
        "CLERK_EXTRACTOR",
        "extractor",
        label,
        "rules",
        "The extractor of people and votes; a site's extra may name another.",
    ),
    Setting(
        "CLERK_PUBLISH_DIR",
        "publish_dir",
        storage,
        "_published under STORAGE_DIR",
        "Where the deployer `local` publishes: a folder per site, with its versions and a link to the current one."
        " May be a bucket, like STORAGE_DIR.",
        _show_storage,
        is_computed=True,
    ),
    Setting(
        "CLERK_KEEP_VERSIONS",
        "keep_versions",
        positive_int,
        "5",
        "Versions of a site's archive that the deployer `local` keeps, including the current one.",
    ),
    Setting(
        "CLERK_DEPLOY_COMMAND",
        "deploy_command",
        command,
        "none",
        "The command of the deployer `command`, split into words as by a shell; the database's path is appended.",
        lambda words: "(none)" if words is None else shlex.join(words),
        executes_code=True,
    ),
    Setting(
        "CLERK_DEPLOY_TIME_LIMIT",
        "deploy_time_limit",
        seconds,
        "900",
        "Seconds after which that command and its child processes are killed.",
    ),
    Setting(
        "CLERK_PUBLIC_URL",
        "public_url",
        web_url,
        "none",
        "Where readers reach `clerk serve`, such as https://archives.example.org. Mails and feeds link to it.",
        lambda url: url or "(none)",
    ),
    Setting(
        "CLERK_SMTP_HOST",
        "smtp_host",
        host_name,
        "none",
        "The SMTP server for the mails of `clerk alert`. Without it no mail is sent.",
        lambda host: host or "(none)",
    ),
    Setting(
        "CLERK_SMTP_PORT",
        "smtp_port",
        port,
        "587",
        "The port of the SMTP server: usually 587 for starttls, 465 for implicit, 25 for none.",
    ),
    Setting(
        "CLERK_SMTP_TLS",
        "smtp_tls",
        tls_mode,
        "starttls",
        "Encryption of the connection to the SMTP server: starttls, implicit (TLS from the start) or none.",
    ),
    Setting(
        "CLERK_SMTP_USER",
        "smtp_user",
        str,
        "none",
        "The user name at the SMTP server, if it needs one.",
        lambda user: user or "(none)",
    ),
    Setting(
        "CLERK_SMTP_PASSWORD",
        "smtp_password",
        str,
        "none",
        "The password at the SMTP server. Never sent without TLS.",
        lambda password: "(none)" if password is None else "***",
    ),
    Setting(
        "CLERK_SMTP_FROM",
        "smtp_from",
        mail_address,
        "none",
        "The sender of mails, such as clerk@example.org.",
        lambda address: address or "(none)",
    ),
    Setting(
        "CLERK_DIGEST_HOUR",
        "digest_hour",
        hour,
        "6",
        "The hour, in UTC, at which daily digests are sent; weekly ones at that hour on Mondays.",
    ),
    Setting(
        "REDIS_URL",
        "redis_url",
        redis_url,
        "none",
        "The legacy clerk's Redis, for `clerk legacy` only: redis://:password@host:6379/0.",
        lambda url: "(none)" if url is None else redact_url(url),
    ),
)


ENVIRON: Mapping[str, str] = os.environ


def load(environ: Mapping[str, str] = ENVIRON, current_folder: Path | None = None) -> Settings:
    """Read all settings. An empty value counts as not set, as in compose files and shells."""
    current_folder = current_folder or _current_folder()
    file = current_folder / ".env"
    sources: dict[str, Mapping[str, str | None]] = {"environment": environ}
    if credentials := environ.get("CREDENTIALS_DIRECTORY"):
        sources[credentials] = _from_credentials(Path(credentials))
    sources[str(file)] = _from_file(file)
    parsed: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        origins[setting.name] = "default"
        if not setting.is_computed:
            parsed[setting.field] = setting.empty if setting.default == "none" else setting.parse(setting.default)
        for origin, source in sources.items():
            text = (source.get(setting.name) or "").strip()
            if not text:
                continue
            if setting.executes_code and origin == str(file):
                raise SettingError(
                    f"{setting.name} is in {file}, and is not read from there because it runs programs",
                    "remove it there, and set it in the environment if you trust its value",
                )
            try:
                parsed[setting.field] = setting.parse(text)
            except ValueError as error:
                problem, remedy = error.args
                raise SettingError(f"{setting.name} (from {origin}) {problem}", remedy) from error
            origins[setting.name] = origin
            break
    database = parsed.setdefault("database_url", None)
    if database is None and "direct_database_url" in parsed:
        raise SettingError(
            "CLERK_DIRECT_DATABASE_URL is set, but DATABASE_URL is not", "set both, or only DATABASE_URL"
        )
    parsed.setdefault("direct_database_url", database)
    parsed.setdefault("ocr_engine", "tesserocr" if importlib.util.find_spec("tesserocr") else "pytesseract")
    home = parsed.setdefault("home", current_folder.absolute() / ".clerk")
    cache_folder = parsed.setdefault("cache_dir", home / "cache")
    for name in ("storage_dir", "publish_dir"):
        if isinstance(url := parsed.get(name), BucketUrl):
            parsed[name] = object_root(url, cache_folder, parsed["cache_bytes"])
    storage_dir = parsed.setdefault("storage_dir", home / "storage")
    parsed.setdefault("publish_dir", storage_dir / "_published")
    return Settings(**parsed, origins=origins)


_OTHER_VARIABLES = frozenset({"CLERK_SITE", "CLERK_DATABASE", "CLERK_PARENT_DEATH_PIPE", "CLERK_TEST_DATABASE_URL"})
"""Variables that are not settings: of deploy commands, of child processes and of the tests."""


def unknown_variables(
    environ: Mapping[str, str] = ENVIRON, current_folder: Path | None = None
) -> list[tuple[str, str]]:
    """Variables with the prefix CLERK_ that nothing reads, and the origin of each: `environment`, or a `.env` file."""
    file = (current_folder or _current_folder()) / ".env"
    known = {setting.name for setting in SETTINGS} | _OTHER_VARIABLES
    sources: dict[str, Mapping[str, str | None]] = {"environment": environ, str(file): _from_file(file)}
    return [
        (name, origin)
        for origin, source in sources.items()
        for name in sorted(source)
        if name.startswith(PREFIX) and name not in known
    ]


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingError("the current folder was deleted", "change to a folder that exists") from error


def _from_credentials(folder: Path) -> Mapping[str, str | None]:
    """One file per setting, as systemd's LoadCredential= creates them. Child processes do not inherit these secrets."""
    try:
        names = {setting.name for setting in SETTINGS} & {file.name for file in folder.iterdir()}
        return {name: (folder / name).read_text(encoding="utf-8") for name in names}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"the credentials in {folder} cannot be read ({error})", "correct them, or unset CREDENTIALS_DIRECTORY"
        ) from error


def _from_file(file: Path) -> Mapping[str, str | None]:
    try:
        return dotenv_values(file) if file.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} cannot be read ({error})", "correct it or move it away") from error
