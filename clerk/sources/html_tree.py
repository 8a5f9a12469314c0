"""The tree of an HTML page from outside: limits, walking it, and the addresses in it. Used in `parser_process` only."""

from __future__ import annotations

from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from clerk.documents.html_tree import PageRejected

MAX_LINKS = 50_000
MAX_ADDRESS_BYTES = 2000
MAX_RESPONSE_BYTES = 32_000_000
"""The addresses of a page can be longer than the page, because each is joined to the same base."""
HEADINGS = frozenset({"h1", "h2", "h3", "caption", "legend", "summary", "title"})
HEADING_SYMBOLS = "▲▼►◄▶◀•·+- "
"""Arrows and bullets that collapse a section are not part of its heading."""


def base_url(url: str, parser: LexborHTMLParser) -> str:
    base = parser.css_first("base[href]")
    return url if base is None else join_url(url, base.attributes["href"] or "") or url


def has_other_scheme(address: str) -> bool:
    """Whether the address is not of the web, such as an image in a `data:` address."""
    scheme, colon, _ = address[:30].partition(":")
    return bool(colon) and scheme.strip().isalpha() and scheme.strip().lower() not in ("http", "https")


def join_url(base: str, address: str) -> str | None:
    try:
        return urljoin(base, address.strip())
    except ValueError:  # for example http://[broken
        return None


class AddressResolver:
    """Completes the addresses of one page. It checks their length before anything else sees them, and their number."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.too_long = 0
        """Number of addresses of the web that are too long."""
        self._links = 0
        self._bytes = 0

    def resolve(self, address: str) -> str | None:
        """The complete URL; None if it is invalid or too long."""
        if len(address) > MAX_ADDRESS_BYTES or (url := join_url(self.base, address)) is None:
            self.too_long += len(address) > MAX_ADDRESS_BYTES and not has_other_scheme(address)
            return None
        if (size := len(url.encode(errors="replace"))) > MAX_ADDRESS_BYTES:
            self.too_long += not has_other_scheme(url)
            return None
        self._bytes += size
        if self._bytes > MAX_RESPONSE_BYTES // 4:
            raise PageRejected(f"has links with addresses of more than {MAX_RESPONSE_BYTES // 4:,} bytes together")
        return url

    def count(self) -> None:
        """Count a link, valid or not."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise PageRejected(f"has more than {MAX_LINKS:,} links")
