"""Renders a page of docs/ as HTML for the dashboard.

Its links stay as they are if the dashboard serves their target. Of others, such as those to clerk's source code, only
the text is shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from clerk.package_data import data_path
from clerk.web.table_labels import label_cells

FOLDER = data_path("docs")

# They mark the generated parts of a page. No page shows one as an example.
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class RenderedPage:
    title: str
    body: Markup


@cache
def names() -> frozenset[str]:
    """`runbooks/alerts.md`, … The files do not change while the dashboard runs."""
    return frozenset(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.md"))


@cache
def render_page(name: str, root: Path = FOLDER) -> RenderedPage:
    """One of `names()`. It begins with its title."""
    file = root / name
    markdown = MarkdownIt("js-default", {"html": False})  # not shared: threads would race for its first use
    tokens = markdown.parse(_COMMENT.sub("", file.read_text(encoding="utf-8")))
    _add_anchors(tokens)
    title, body = _text(tokens[1]), tokens[3:]
    for token in body:
        _replace_style(token)
        if token.children is not None:
            token.children = list(_without_dead_links(token.children, file.parent, root))
    return RenderedPage(title, _make_scrollable(markdown.renderer.render(body, markdown.options, {})))


def _text(heading: Token) -> str:
    return "".join(token.content for token in heading.children or [])


def _add_anchors(tokens: list[Token]) -> None:
    """As GitHub makes them: the links of docs/ are made for those."""
    used: Counter[str] = Counter()
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            anchor = re.sub(r"[^\w -]", "", _text(content).lower()).replace(" ", "-")
            opening.attrSet("id", f"{anchor}-{used[anchor]}" if used[anchor] else anchor)
            used[anchor] += 1


def _replace_style(token: Token) -> None:
    """The dashboard's pages may have no inline styles (Content-Security-Policy)."""
    if token.attrs.pop("style", None) == "text-align:right":
        token.attrSet("class", "number")


def _without_dead_links(tokens: Iterable[Token], folder: Path, root: Path) -> Iterator[Token]:
    is_dead = False
    for token in tokens:
        if token.type == "link_open":
            is_dead = not _is_served(str(token.attrs["href"]), folder, root)
        if not (is_dead and token.type in ("link_open", "link_close")):
            yield token


def _is_served(href: str, folder: Path, root: Path) -> bool:
    url = urlsplit(href)
    if url.scheme or not url.path:
        return True  # another site, or a section of the same page
    file = (folder / url.path).resolve()
    return file.is_file() and file.is_relative_to(root.resolve())


def _make_scrollable(html: str) -> Markup:
    """Wide tables and examples scroll, also with the keyboard. Text cannot contain these tags: it is escaped."""
    numbers = count(1)
    html = html.replace("<pre>", '<pre tabindex="0">').replace("</table>", "</table></div>")
    html = re.sub(
        "<table>",
        lambda _: f'<div class="scroll" role="region" aria-label="Table {next(numbers)}" tabindex="0"><table>',
        html,
    )
    return label_cells(html)
