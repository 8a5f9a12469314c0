"""Process that extracts the links of HTML pages, started by `link_parser`. It is single-threaded and has limits.

An HTML parser needs quadratic time for some pages, such as one with many attributes, and a regular expression may need
exponential time for some addresses. Neither can be interrupted in a thread: a process can be killed.

Protocol: for each page a line of JSON (url, bytes, patterns, cpu_seconds) and then that many bytes of UTF-8 on stdin;
the response is one line of JSON on stdout. The process exits at end-of-file on stdin, so it ends with its parent.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from clerk.documents.sanitize import clean_text
from clerk.ocr.restrictions import restrict_process
from clerk.ocr.sandbox import Limits, set_own_cpu_limit, set_own_limits

CPU_SECONDS = 10.0
"""For one page. A page of 5 MB with 50,000 links takes about three."""
MEMORY = 768 << 20
MAX_PAGE_BYTES = 5_000_000
MAX_LINKS = 50_000
MAX_ADDRESS_BYTES = 2000
MAX_RESPONSE_BYTES = 32_000_000
"""The addresses of a page can be longer than the page, because each is joined to the same base."""


class PageRejected(Exception):
    """The page exceeds a limit. The message is the predicate of a sentence about the page."""


def extract_links(url: str, html: str, patterns: list[str]) -> dict[str, Any]:
    """The response for one page: its title, its links in document order, and how many addresses are too long."""
    _check_nesting(html)
    parser = LexborHTMLParser(html)
    collector = _LinkCollector(_base_url(url, parser), [re.compile(pattern, re.IGNORECASE) for pattern in patterns])
    for node, is_start in _walk(parser.root):
        if is_start:
            collector.start(node)
        else:
            collector.end(node)
    collector.end_row()
    return {"title": collector.title, "rows": collector.rows, "too_long": collector.too_long}


_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_MAX_NESTING = 20_000
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_END_TAG_OPTIONAL = frozenset({"dd", "dt", "li", "option", "p", "tbody", "td", "tfoot", "th", "thead", "tr"})
_UNNESTED = _VOID | _END_TAG_OPTIONAL


def _check_nesting(html: str) -> None:
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


def _base_url(url: str, parser: LexborHTMLParser) -> str:
    base = parser.css_first("base[href]")
    return url if base is None else _join_url(url, base.attributes["href"] or "") or url


def _has_other_scheme(address: str) -> bool:
    """Whether the address is not of the web, such as an image in a `data:` address."""
    scheme, colon, _ = address[:30].partition(":")
    return bool(colon) and scheme.strip().isalpha() and scheme.strip().lower() not in ("http", "https")


def _join_url(base: str, address: str) -> str | None:
    try:
        return urljoin(base, address.strip())
    except ValueError:  # for example http://[broken
        return None


_IGNORED = frozenset({"script", "style", "template", "noscript"})
_HEADINGS = frozenset({"h1", "h2", "h3", "caption", "legend", "summary", "title"})
_ROWS = frozenset({"tr", "li", "p"})
_HEADING_SYMBOLS = "▲▼►◄▶◀•·+- "
"""Arrows and bullets that collapse a section are not part of its heading."""


def _walk(root: LexborNode | None) -> Iterator[tuple[LexborNode, bool]]:
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


class _LinkCollector:
    """State of a walk through a page: the current heading, row and anchor, and the links so far."""

    def __init__(self, base_url: str, patterns: list[re.Pattern[str]]) -> None:
        self.base_url = base_url
        self.patterns = patterns
        self.title = ""
        self.heading = ""
        self.rows: list[tuple[str, str, list[tuple[str, str, list[bool]]]]] = []
        """Heading, context and links of each row with links; a link is its URL, text and matches."""
        self.too_long = 0
        self._links = 0
        self._bytes = 0
        self._heading: list[str] | None = None
        self._anchor: tuple[str, list[str]] | None = None
        self._row: list[str] = []
        self._row_links: list[tuple[str, str]] = []
        self._last_address = ""

    def start(self, node: LexborNode) -> None:
        if node.is_text_node:
            self._add_text(node.text_content or "")
        elif node.tag in _HEADINGS:
            self.end_row()
            self._heading = []
        elif node.tag in ("tr", "li"):
            self.end_row()
        elif node.tag == "a" and (address := node.attributes.get("href")):
            self._end_anchor()
            label = " ".join(node.attributes.get(name) or "" for name in ("title", "aria-label"))
            self._anchor = (address, [label])
        elif node.tag == "img":
            self._add_text(node.attributes.get("alt") or "")

    def end(self, node: LexborNode) -> None:
        if node.tag in _HEADINGS and self._heading is not None:
            text = clean_text("".join(self._heading)).strip(_HEADING_SYMBOLS)
            if node.tag == "title":
                self.title = text
            else:
                self.heading = text or self.heading
            self._heading = None
        elif node.tag == "a":
            self._end_anchor()
        elif node.tag in _ROWS:
            self.end_row()

    def end_row(self) -> None:
        self._end_anchor()
        context = clean_text(" ".join(self._row), 1000)
        links = [
            (url, text, self._match(url))
            for address, text in self._row_links
            if (url := self._checked_url(address)) is not None
        ]
        if links:
            self.rows.append((self.heading, context, links))
        self._row, self._row_links = [], []

    def _checked_url(self, address: str) -> str | None:
        """The complete URL, None if it is invalid or too long. Its length is checked before any pattern sees it."""
        if len(address) > MAX_ADDRESS_BYTES or (url := _join_url(self.base_url, address)) is None:
            self.too_long += len(address) > MAX_ADDRESS_BYTES and not _has_other_scheme(address)
            return None
        if (size := len(url.encode(errors="replace"))) > MAX_ADDRESS_BYTES:
            self.too_long += not _has_other_scheme(url)
            return None
        self._bytes += size
        if self._bytes > MAX_RESPONSE_BYTES // 4:
            raise PageRejected(f"has links with addresses of more than {MAX_RESPONSE_BYTES // 4:,} bytes together")
        return url

    def _match(self, url: str) -> list[bool]:
        without_fragment = url.partition("#")[0]
        return [any(pattern.search(text) for text in {url, without_fragment}) for pattern in self.patterns]

    def _add_text(self, text: str) -> None:
        if self._heading is not None:
            self._heading.append(text)
        if self._anchor is not None:
            self._anchor[1].append(text)
        self._row.append(text)

    def _end_anchor(self) -> None:
        if self._anchor is None:
            return
        address, texts = self._anchor
        text = clean_text(" ".join(texts))
        # The HTML parser repeats an anchor that is not closed, without its text, in the blocks that follow.
        if text or address != self._last_address:
            self._links += 1
            if self._links > MAX_LINKS:
                raise PageRejected(f"has more than {MAX_LINKS:,} links")
            self._row_links.append((address, text))
        self._anchor, self._last_address = None, address


def main() -> None:
    set_own_limits(Limits(MEMORY), MEMORY, CPU_SECONDS)
    restrict_process()
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        html = _read(sys.stdin.buffer, int(request["bytes"])).decode("utf-8", "replace")
        set_own_cpu_limit(_used_cpu_seconds() + float(request["cpu_seconds"]))
        try:
            response = extract_links(request["url"], html, request["patterns"])
        except PageRejected as error:
            response = {"rejected": str(error)}
        except (MemoryError, SelectolaxError):  # the parser's own allocation failed
            response = {"rejected": f"needs more than {MEMORY >> 20} MiB of memory to be parsed"}
        sys.stdout.write(json.dumps(response) + "\n")
        sys.stdout.flush()


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        sys.exit(0)  # the parent has ended
    return content


def _used_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
