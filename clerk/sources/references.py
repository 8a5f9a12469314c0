"""The addresses and markers of an HTML page: what detection needs to know about it. Extracted in `parser_process`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from clerk.documents.html_tree import check_nesting
from clerk.documents.sanitize import clean_text
from clerk.sources.html_tree import AddressResolver, base_url, has_other_scheme

MAX_REFERENCES = 5000
"""Distinct addresses of a page. Further ones are ignored: what a page refers to is known long before."""
_MAX_TEXT = 200
_MAX_VALUE = 5000
_KINDS = {"a": "link", "area": "link", "iframe": "frame", "frame": "frame", "embed": "frame", "object": "frame"}
_RESOLVED = ("href", "src", "action", "data")
_LATER = ("data-src", "data-lazy-src", "data-url")
"""Attributes whose address a script puts into `src` when the frame is scrolled to."""
_COMPLETE = re.compile(
    r"(?:https?:)?//[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,9}(?::\d{1,5})?(?:[/?][^\s'\"<>\\()]{0,1900})?",
    re.IGNORECASE,
)
_IN_SCRIPT = re.compile(r"https?:(?:\\u002F|\\?/){2}(?:[^\s'\"<>\\()]|\\u002F|\\/){4,500}", re.IGNORECASE)
_SLASH = re.compile(r"\\u002F|\\/", re.IGNORECASE)
_NO_DATA = ("ld+json",)
"""What the page says about itself, such as the text of an article, is no link."""
_REFRESH = re.compile(r"^\s*\d*\s*[;,]\s*url\s*=\s*['\"]?([^'\"]{1,2000})", re.IGNORECASE)


@dataclass(frozen=True)
class Reference:
    kind: str
    """`link`, `frame` (what the page embeds or continues at), `script` (in the data from which the browser builds the
    page) or `other`."""
    url: str
    text: str
    """Of a link, with its title and label, and of its images."""


@dataclass(frozen=True)
class PageReferences:
    title: str
    references: list[Reference]
    marked: Mapping[str, str]
    """The first selector that matches the page, by the name under which the selectors were given."""

    @classmethod
    def from_response(cls, response: Mapping[str, Any]) -> PageReferences:
        return cls(response["title"], [Reference(*entry) for entry in response["references"]], response["marked"])


def extract_references(url: str, html: str, markers: Mapping[str, list[str]]) -> dict[str, Any]:
    """The response for one page. `markers`: CSS selectors by name."""
    check_nesting(html)
    parser = LexborHTMLParser(html)
    addresses = AddressResolver(base_url(url, parser))
    found: dict[tuple[str, str], str] = {}
    for node in parser.css("*"):
        text = ""
        for kind, address in _addresses(node, addresses):
            text = text or (_text(node) if kind == "link" else "")
            found[kind, address] = found.get((kind, address)) or text
        if len(found) > MAX_REFERENCES:
            break
    for address in _script_addresses(parser, MAX_REFERENCES - len(found)):
        found.setdefault(("script", address), "")
    title = parser.css_first("title")
    return {
        "title": clean_text(title.text() if title else "", _MAX_TEXT),
        "references": [(kind, address, text) for (kind, address), text in found.items()],
        "marked": {
            name: selector
            for name, selectors in markers.items()
            if (selector := next((each for each in selectors if parser.css_first(each) is not None), None))
        },
    }


def _addresses(node: LexborNode, addresses: AddressResolver) -> list[tuple[str, str]]:
    """Kind and URL of each address in the attributes of an element, also those that its scripts open."""
    kind = _KINDS.get(node.tag or "", "other")
    found = []
    for name, value in node.attributes.items():
        value = (value or "")[:_MAX_VALUE].strip()
        refresh = _REFRESH.match(value) if node.tag == "meta" and name == "content" else None
        if refresh and (url := addresses.resolve(refresh[1])):
            found.append(("frame", url))
        elif name in _RESOLVED and value and not value.startswith("#") and not has_other_scheme(value):
            if url := addresses.resolve(value):
                found.append((kind, url))
        elif "//" in value and (match := _COMPLETE.search(value)) and (url := addresses.resolve(match[0])):
            is_frame = kind == "frame" and name in _LATER
            found.append((kind if name in _RESOLVED or is_frame else "other", url))
    return found


def _script_addresses(parser: LexborHTMLParser, most: int) -> list[str]:
    """The complete addresses in inline scripts: of a page that the browser builds, the links are there only."""
    found: dict[str, None] = {}
    for node in parser.css("script:not([src])"):
        if (node.attributes.get("type") or "").lower().endswith(_NO_DATA):
            continue
        for match in _IN_SCRIPT.finditer(node.text(deep=True)):
            if len(found) >= most:
                return list(found)
            found.setdefault(_SLASH.sub("/", match[0]))
    return list(found)


def _text(node: LexborNode) -> str:
    labels = [node.attributes.get(name) or "" for name in ("title", "aria-label")]
    labels += [image.attributes.get("alt") or "" for image in node.css("img[alt]")[:3]]
    return clean_text(" ".join([node.text(deep=True)[:_MAX_VALUE], *labels]), _MAX_TEXT)
