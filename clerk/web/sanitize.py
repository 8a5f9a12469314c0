"""Text from outside, made harmless for a page: what Jinja escapes is only the half of it.

Control characters could break the markup's own reading, and overrides of the writing direction could turn round what
stands beside them.
"""

from __future__ import annotations

import re

from clerk.archive.search import HIGHLIGHT

_BLANK = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_COMMAND = re.compile(r"(clerk [^;\s]+(?: (?!--)[^;\s]+)?(?: --[^;\s]+(?: [^;\s-][^;\s]*)?)*)")
"""`clerk`, its command, at most one word that is no option, then options: what follows is a sentence again."""
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")


def sanitize_text(text: str) -> str:
    """The same text without what is no letter, sign, blank or end of line."""
    text = re.sub("\r\n?|[\x0b\x0c\x85]", "\n", text)
    return _BLANK.sub(" ", _TURNING.sub("", text))


def parts(text: str) -> list[tuple[str, bool]]:
    """A text with MARKS as its pieces: each harmless, and whether it was found."""
    pieces: list[tuple[str, bool]] = []
    found = False
    for piece in re.split(f"([{''.join(HIGHLIGHT)}])", text):
        if piece in HIGHLIGHT:
            found = piece == HIGHLIGHT[0]
        elif piece:
            pieces.append((sanitize_text(piece), found))
    return pieces


def commands(text: str) -> list[tuple[str, bool]]:
    """What `clerk why` advises as its pieces, and whether each is a command: "start one: ", "clerk worker"."""
    return [(piece, number % 2 == 1) for number, piece in enumerate(_COMMAND.split(sanitize_text(text))) if piece]
