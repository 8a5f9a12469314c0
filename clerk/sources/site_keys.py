"""Keys of a site's `extra`: those that every site can have, and the check of the keys of a fetcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clerk.sources.fetcher import Fetcher
from clerk.sources.pdf_details import UNDATED_HELP
from clerk.suggestions import did_you_mean

SITE_KEYS: Mapping[str, str] = {
    "languages": "languages of the documents, for OCR, such as eng+spa; default: eng",
    "extractor": "extractor of people and votes; default: CLERK_EXTRACTOR",
    "deploy": "deployer, or a list: local, command, none or the name of a plugin; default: local and every plugin",
    "undated": UNDATED_HELP,
    "day_first": "true if 03-04-2025 means 3 April",
    "source": "who publishes the documents; shown with the archive",
    "source_url": "address of the publisher; shown with the archive",
    "about": "name of another site about the town; shown with the archive",
    "about_url": "address of that site",
    "license": "licence of the documents; shown with the archive",
    "license_url": "address of the licence",
    "user_agent": "User-Agent header of requests for this site",
    "budget": "limits of a run, an object with requests, megabytes and hours",
}
"""Key → description. Parts of clerk other than the fetcher read them."""
SITE_KEY_TYPES: Mapping[str, type] = {"day_first": bool}


def describe_keys(fetcher: type[Fetcher]) -> dict[str, str]:
    """The keys of `extra` for sites with this fetcher, its own first, with a description of each."""
    return {**fetcher.extra_help, **{key: help_ for key, help_ in SITE_KEYS.items() if key not in fetcher.extra_help}}


def key_type(fetcher: type[Fetcher], key: str) -> type:
    """The type of the value of a key; str if the fetcher declares none."""
    return fetcher.extra_types.get(key) or SITE_KEY_TYPES.get(key) or str


def check_keys(fetcher: type[Fetcher], extra: Mapping[str, Any], defaults: Iterable[str] = ()) -> None:
    """Raise ValueError(problem, remedy) for a key that neither the fetcher nor another part of clerk reads.

    A fetcher that describes no keys, such as one of legacy clerk, accepts all. `defaults`: keys that its plugin sets.
    """
    if not fetcher.extra_help:
        return
    known = {**describe_keys(fetcher), **dict.fromkeys(defaults, "")}
    for key in extra:
        if key not in known:
            remedy = did_you_mean(str(key), known) or f"known are {', '.join(known)}"
            raise ValueError(f"no key {str(key)[:80]}", remedy)
