"""Whether two answers for a web page have the same content.

Portals put view states, tokens and times of generation into every answer, so its bytes differ each time.
"""

from __future__ import annotations

from collections.abc import Iterator

_HIDDEN = (b"script", b"style", b"template")


def has_same_text(left: bytes, right: bytes) -> bool:
    """Whether the pages have the same text outside of tags, comments, scripts and styles."""
    return _words(left) == _words(right)


def _words(html: bytes) -> list[bytes]:
    return b" ".join(_texts(html)).split()


def _texts(html: bytes) -> Iterator[bytes]:
    """Takes time in proportion to the size: nothing is searched twice."""
    lower, position = html.lower(), 0
    while (start := html.find(b"<", position)) >= 0:
        yield html[position:start]
        if lower.startswith(b"<!--", start):
            end = b"-->"
        else:
            end = next((b"</" + name for name in _HIDDEN if lower.startswith(b"<" + name, start)), b">")
        found = lower.find(end, start + 1)
        if found < 0:
            return
        position = found + len(end)
    yield html[position:]
