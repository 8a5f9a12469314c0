"""What the text of a setting means. Each raises ValueError(problem, remedy), which must not repeat a secret."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import psycopg
from psycopg import conninfo


def database_url(text: str) -> str:
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


def redis_url(text: str) -> str:
    if not text.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("is not a Redis URL", "write redis://:password@host:6379/0, or unix:///path?db=0")
    return text


def folder(text: str) -> Path:
    try:
        path = Path(text).expanduser().absolute()
        usable = path.is_dir() or not path.exists()
    except (OSError, RuntimeError) as error:
        raise ValueError(f"names {text}, which cannot be looked at ({error})", "name a folder of your own") from error
    if not usable:
        raise ValueError(f"names {path}, which is not a folder", "name a folder, or one that can be made")
    return path


def seconds(text: str) -> float:
    return _number(text, 86_400, "seconds")


def hours(text: str) -> float:
    return _number(text, 87_600, "hours")


def _number(text: str, most: int, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= most:
        raise ValueError(f"is {text!r}", f"write a number of {unit} above 0, at most {most}")
    return number


def existing_folder(text: str) -> Path:
    path = folder(text)
    if not path.is_dir():
        raise ValueError(f"names {path}, which does not exist", "make that folder, or name another")
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
        raise ValueError("has characters that cannot stand in an HTTP header", "write it in printable ASCII")
    return text


def label(text: str) -> str:
    if not text.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"is {text!r}", "write the name of an extractor, such as rules")
    return text


def command(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot be taken apart ({error})", "quote it as for a shell") from error
    if not words or not words[0]:
        raise ValueError("names no program", "write a program and its arguments")
    return tuple(words)


def redact_url(url: str | None) -> str:
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
