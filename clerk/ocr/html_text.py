"""The text of a web page. Runs in sandboxed processes only.

Scripts, styles, navigation and form controls are left out. Blocks and rows of tables become lines.
Limitation: text that a script would load is not in the file.
"""

from __future__ import annotations

import codecs
import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from clerk.documents.html_tree import IGNORED, PageRejected, check_nesting, walk
from clerk.errors import NotAPdf, PdfTooLarge
from clerk.ocr.text_lines import TextLines

MAX_BYTES = 32 << 20
_LEFT_OUT = IGNORED | {
    "audio", "button", "canvas", "embed", "head", "iframe", "input", "nav", "object", "select", "svg", "textarea",
    "video",
}  # fmt: skip
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_CELLS = frozenset({"td", "th"})
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "li", "main", "ol", "p",
    "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "ul",
})  # fmt: skip
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CHARSET = re.compile(rb"""<meta\b[^>]{0,200}?\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{2,40})""", re.I)
_CHARSET_WITHIN = 4096


def html_pages(content: bytes) -> tuple[list[str], str]:
    """The texts of the pages, and the title. Raises NotAPdf for a page that asks for a password."""
    if len(content) > MAX_BYTES:
        raise PdfTooLarge(f"the web page has {len(content):,} bytes; at most {MAX_BYTES:,} are read")
    text = decode(content)
    try:
        check_nesting(text)
    except PageRejected as error:
        raise PdfTooLarge(f"the web page {error}") from error
    parser = LexborHTMLParser(text)
    if parser.css_first('input[type="password" i]') is not None:
        raise NotAPdf("the web page has a login form")
    title = parser.css_first("head > title")
    lines = TextLines()
    hidden: LexborNode | None = None
    for node, is_start in walk(parser.body, _LEFT_OUT):
        if hidden is not None:
            if not is_start and node == hidden:
                hidden = None
        elif is_start and "hidden" in (node.attributes if node.tag not in ("-text", "-comment") else {}):
            hidden = node
        else:
            _add(lines, node, is_start)
    return lines.pages(), "" if title is None else title.text()


def _add(lines: TextLines, node: LexborNode, is_start: bool) -> None:
    tag = node.tag
    if tag == "-text":
        if is_start:
            lines.text(node.text_content or "")
    elif tag in _HEADINGS:
        (lines.start_heading if is_start else lines.end_heading)()
    elif tag in _CELLS:
        (lines.start_cell if is_start else lines.end_cell)()
    elif tag == "tr":
        (lines.start_row if is_start else lines.end_row)()
    elif tag in _BLOCKS:
        lines.end_line()


def decode(content: bytes) -> str:
    """By the byte order mark, the `charset` that the page declares, or UTF-8; else as Windows-1252, like browsers."""
    encodings = [name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)]
    if match := _CHARSET.search(content[:_CHARSET_WITHIN]):
        encodings.append(match[1].decode())
    for encoding in (*encodings, "utf-8"):
        try:
            return content.decode(encoding)
        except (LookupError, UnicodeError):
            continue
    return content.decode("cp1252", "replace")
