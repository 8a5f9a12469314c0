"""Names that come from outside, made safe for paths. A path never leaves its site's folder."""

from __future__ import annotations

import re
import unicodedata

SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_LONGEST = 100


def is_subdomain(text: str) -> bool:
    """Lower-case letters, digits, dots and hyphens, as in a host name; at most 63, no dots in a row."""
    return SUBDOMAIN.fullmatch(text) is not None and ".." not in text


def folder_name(meeting: str) -> str:
    """A meeting's name as a folder: `City Council` → `CityCouncil`, readable and the same every time.

    Different meetings may become one folder (`A-B` and `A/B` do not, `Café` and `Cafe` do not); what keeps
    documents apart is the content item, not the path.
    """
    normal = unicodedata.normalize("NFC", meeting)
    words = re.split(r"[^\w-]+", normal, flags=re.UNICODE)
    name = "".join(word[:1].upper() + word[1:] for word in words if word).strip("._-")
    while len(name.encode()) > _LONGEST:
        name = name[:-1]
    return name or "Meeting"


def clean_text(text: str, longest: int = 200) -> str:
    """A name from outside as one clean line: no control characters (a NUL cannot be stored), no runs of blanks."""
    shown = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") else letter for letter in text)
    return " ".join(unicodedata.normalize("NFC", shown).split())[:longest].strip()
