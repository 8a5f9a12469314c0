"""The tree of an HTML page from outside: limits, walking it, and the addresses in it. Used in `parser_process` only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_LINKS = 50_000
MAX_ADDRESS_BYTES = 2000
MAX_RESPONSE_BYTES = 32_000_000
"""The addresses of a page can be longer than the page, because each is joined to the same base."""
HEADINGS = frozenset({"h1", "h2", "h3", "caption", "legend", "summary", "title"})
HEADING_SYMBOLS = "▲▼►◄▶◀•·+- "
"""Arrows and bullets that collapse a section are not part of its heading."""


class PageRejected(Exception):
    """The page exceeds a limit. The message is the predicate of a sentence about the page."""


_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_MAX_NESTING = 20_000
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_END_TAG_OPTIONAL = frozenset({"dd", "dt", "li", "option", "p", "tbody", "td", "tfoot", "th", "thead", "tr"})
_UNNESTED = _VOID | _END_TAG_OPTIONAL


def check_nesting(html: str) -> None:
    """Reject deep nesting at once: the HTML parser needs quadratic time for it, up to the CPU limit."""
    open_tags: Counter[str] = Counter()
    depth = 0
    for match in _TAG.finditer(html):
        is_end, tag = bool(match[1]), match[2].lower()
        if is_end and open_tags[tag]:
            open_tags[tag] -= 1
            depth -= 1
        elif not is_end and tag not in _UNNESTED:
            open_tags[tag] += 1
            depth += 1
            if depth > _MAX_NESTING:
                raise PageRejected(f"has more than {_MAX_NESTING:,} nested elements")


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


_IGNORED = frozenset({"script", "style", "template", "noscript"})


def walk(root: LexborNode | None) -> Iterator[tuple[LexborNode, bool]]:
    """Yield each node at its start (True) and end (False). Iterative, because a hostile page can be nested deeply."""
    node, depth = root, 0
    while node is not None:
        yield node, True
        if node.tag not in _IGNORED and (child := node.first_child) is not None:
            node, depth = child, depth + 1
            continue
        yield node, False
        while depth and node is not None and node.next is None:
            node, depth = node.parent, depth - 1
            if node is not None:
                yield node, False
        node = node.next if depth and node is not None else None


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
