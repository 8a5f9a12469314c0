"""Long lists, a page at a time, and the addresses of their pages. Anything may stand in an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

PAGE_SIZE = 100


@dataclass(frozen=True)
class Listing:
    rows: list[Any]
    total: int
    page: int
    pages: int


def page_of(total: int, wanted: int, size: int = PAGE_SIZE) -> tuple[int, int]:
    """The page that there is, nearest to the wanted one; and how many there are."""
    pages = max(1, -(-total // size))
    return min(wanted, pages), pages


def page_number(given: str) -> int:
    return max(1, int(given)) if given.isascii() and given.isdigit() and len(given) < 8 else 1


def text(given: str, longest: int = 100) -> str:
    """What Postgres takes as text: no NUL."""
    return given.replace("\0", "")[:longest].strip()


def link_to(path: str, choice: Any) -> Callable[..., str]:
    """In a template: the address of the same list with something changed. What is left at its default is left out."""
    default = vars(type(choice)())

    def link(**changes: Any) -> str:
        wanted = vars(choice) | {"page": 1} | changes
        query = urlencode({name: value for name, value in wanted.items() if value != default[name]})
        return f"{path}?{query}" if query else path

    return link
