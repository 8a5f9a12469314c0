"""Finds the words of a page that a search matches, to highlight them on the page's image."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clerk.archive.query import HIGHLIGHT, InvalidQuery, parse
from clerk.archive.terms import HYPHENS
from clerk.documents.word_boxes import SCALE, Word

_COLOUR = "#ffd24d"
_HYPHENS = tuple(HYPHENS)


def find_matches(words: Sequence[Word], search_text: str) -> list[Word]:
    """The words that contain a match of the search, by the terms of the archive; of a phrase, all of its words.

    A query that cannot be parsed matches none: the search page reports it.
    """
    try:
        query = parse(search_text)
    except InvalidQuery:
        return []
    start, end = HIGHLIGHT
    matches = []
    is_inside = False
    # Words contain neither spaces nor control characters. A word ends in a hyphen where a line does.
    text = "".join(word.text + ("\n" if word.text.endswith(_HYPHENS) else " ") for word in words)
    for word, marked in zip(words, re.split("[ \n]", query.highlight(text))[:-1], strict=True):
        if is_inside or start in marked:
            matches.append(word)
        is_inside = marked.rfind(start) > marked.rfind(end) if start in marked or end in marked else is_inside
    return matches


def draw_boxes(words: Sequence[Word]) -> str:
    """An SVG with a rectangle for each word, which is stretched to the size of the page's image."""
    rectangles = "".join(
        f'<rect x="{word.left}" y="{word.top}" width="{word.right - word.left}" height="{word.bottom - word.top}"/>\n'
        for word in words
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SCALE} {SCALE}" preserveAspectRatio="none"'
        f' fill="{_COLOUR}">\n{rectangles}</svg>\n'
    )
