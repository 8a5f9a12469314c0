"""The tree of an untrusted HTML page: walking it, and a limit on its depth. Used in sandboxed processes only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

from selectolax.lexbor import LexborNode


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


IGNORED = frozenset({"script", "style", "template", "noscript"})


def walk(root: LexborNode | None, ignored: Collection[str] = IGNORED) -> Iterator[tuple[LexborNode, bool]]:
    """Yield each node at its start (True) and end (False), without the content of ignored elements. Iterative, because
    a hostile page can be nested deeply."""
    node, depth = root, 0
    while node is not None:
        yield node, True
        if node.tag not in ignored and (child := node.first_child) is not None:
            node, depth = child, depth + 1
            continue
        yield node, False
        while depth and node is not None and node.next is None:
            node, depth = node.parent, depth - 1
            if node is not None:
                yield node, False
        node = node.next if depth and node is not None else None
