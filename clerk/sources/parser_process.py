"""Process that extracts links, rows or references of HTML pages, started by `link_parser`. One thread, with limits.

An HTML parser needs quadratic time for some pages, such as one with many attributes, and a regular expression may need
exponential time for some addresses. Neither can be interrupted in a thread: a process can be killed.

Protocol: for each page a line of JSON (url, bytes, cpu_seconds, and patterns, selectors or markers) and then that
many bytes of UTF-8 on stdin; the response is one line of JSON on stdout. The process exits at end-of-file on stdin, so
it ends with its parent.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import IO, Any

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from clerk.documents.html_tree import PageRejected, check_nesting, walk
from clerk.documents.sanitize import clean_text
from clerk.ocr.restrictions import restrict_process
from clerk.ocr.sandbox import Limits, set_own_cpu_limit, set_own_limits
from clerk.sources.html_tree import HEADING_SYMBOLS, HEADINGS, AddressResolver, base_url
from clerk.sources.references import extract_references
from clerk.sources.row_collector import extract_rows

CPU_SECONDS = 10.0
"""For one page. A page of 8 MB takes about three."""
MEMORY = 768 << 20
MAX_PAGE_BYTES = 15_000_000


def extract_links(url: str, html: str, patterns: list[str]) -> dict[str, Any]:
    """The response for one page: its title, its links in document order, and how many addresses are too long."""
    check_nesting(html)
    parser = LexborHTMLParser(html)
    compiled = [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
    collector = _LinkCollector(AddressResolver(base_url(url, parser)), compiled)
    for node, is_start in walk(parser.root):
        if is_start:
            collector.start(node)
        else:
            collector.end(node)
    collector.end_row()
    return {"title": collector.title, "rows": collector.rows, "too_long": collector.addresses.too_long}


_ROWS = frozenset({"tr", "li", "p"})


class _LinkCollector:
    """State of a walk through a page: the current heading, row and anchor, and the links so far."""

    def __init__(self, addresses: AddressResolver, patterns: list[re.Pattern[str]]) -> None:
        self.addresses = addresses
        self.patterns = patterns
        self.title = ""
        self.heading = ""
        self.rows: list[tuple[str, str, list[tuple[str, str, list[bool]]]]] = []
        """Heading, context and links of each row with links; a link is its URL, text and matches."""
        self._heading: list[str] | None = None
        self._anchor: tuple[str, list[str]] | None = None
        self._row: list[str] = []
        self._row_links: list[tuple[str, str]] = []
        self._last_address = ""

    def start(self, node: LexborNode) -> None:
        if node.is_text_node:
            self._add_text(node.text_content or "")
        elif node.tag in HEADINGS:
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
        if node.tag in HEADINGS and self._heading is not None:
            text = clean_text("".join(self._heading)).strip(HEADING_SYMBOLS)
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
            if (url := self.addresses.resolve(address)) is not None
        ]
        if links:
            self.rows.append((self.heading, context, links))
        self._row, self._row_links = [], []

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
            self.addresses.count()
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
            if (selectors := request.get("selectors")) is not None:
                response = extract_rows(request["url"], html, **selectors)
            elif (markers := request.get("markers")) is not None:
                response = extract_references(request["url"], html, markers)
            else:
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
