"""Sanitising of names from sources and users, for paths and database columns."""

from __future__ import annotations

import re
import unicodedata

SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_MAX_FOLDER_BYTES = 100


def is_subdomain(text: str) -> bool:
    """Whether a text is a valid subdomain: at most 63 lower-case letters, digits, dots and hyphens, with a letter or
    digit at both ends and no two dots in a row."""
    return SUBDOMAIN.fullmatch(text) is not None and ".." not in text


def folder_name(meeting: str) -> str:
    """Convert the name of a meeting to a folder name: `City Council` becomes `CityCouncil`.

    Limitation: different names may share a folder (`City Council` and `City/Council`). Documents in it differ by
    occurrence.
    """
    normal = unicodedata.normalize("NFC", meeting)
    words = re.split(r"[^\w-]+", normal, flags=re.UNICODE)
    name = "".join(word[:1].upper() + word[1:] for word in words if word).strip("._-")
    while len(name.encode()) > _MAX_FOLDER_BYTES:
        name = name[:-1]
    return name or "Meeting"


def clean_text(text: str, max_length: int = 200) -> str:
    """Return a text as one line without control characters (Postgres rejects NUL) and repeated spaces."""
    printable = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") else letter for letter in text)
    return " ".join(unicodedata.normalize("NFC", printable).split())[:max_length].strip()
