"""Pagination: one page of a long result, and the URLs of its pages. Query parameters are untrusted input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

PAGE_SIZE = 100


@dataclass(frozen=True)
class ResultPage:
    rows: list[Any]
    total: int
    page: int
    pages: int


def clamp_page(total: int, page: int, size: int = PAGE_SIZE) -> tuple[int, int]:
    """The existing page nearest to `page`, and the number of pages."""
    pages = max(1, -(-total // size))
    return min(page, pages), pages


def parse_page(value: str) -> int:
    return max(1, int(value)) if value.isascii() and value.isdigit() and len(value) < 8 else 1


def parse_text(value: str, max_length: int = 100) -> str:
    """Without NUL, which Postgres does not accept."""
    return value.replace("\0", "")[:max_length].strip()


def link_to(path: str, params: Any) -> Callable[..., str]:
    """A function for templates: the URL of the same list with some parameters changed. Default values are left out."""
    defaults = vars(type(params)())

    def link(**changes: Any) -> str:
        values = vars(params) | {"page": 1} | changes
        query = urlencode({name: value for name, value in values.items() if value != defaults[name]})
        return f"{path}?{query}" if query else path

    return link
