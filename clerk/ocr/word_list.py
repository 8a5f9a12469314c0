"""Word lists of languages, read from tesseract's models: every language that clerk can OCR has one.

A model contains its word list as a DAWG (directed acyclic word graph): an array of edges of 64 bits. An edge holds,
from the lowest bit, the number of a character, three flags, and the index of the first edge of the next node. Only the
edges of words that are looked up are read from the file: the reader process has little memory of its own.
"""

from __future__ import annotations

import functools
import os
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_WORDS_ENTRY, _CHARACTERS_ENTRY = 19, 21
"""Places of the word list and of the character set in a model's table of contents."""
_MAX_ENTRIES = 100
_EDGES_PER_READ = 32
_DAWG_HEADER = struct.Struct("<hii")
_DAWG_MAGIC = 42
_LAST_EDGE, _BACKWARD, _WORD_END = 1, 2, 4
_FLAG_BITS = 3
_WITHOUT_SPACES = ("chi_", "jpn", "tha", "lao", "khm", "mya", "bod", "dzo")
"""Languages that are written without spaces between words."""
_SAMPLE = 40
"""Words of a page that are looked up first. Each costs about 10 microseconds."""
_CLEARLY_GOOD = 0.96
"""If this share of a sample of the words is known, the others are not looked up."""
_MIN_LETTERS = 3
"""Shorter words are ignored: most combinations of two letters are in the lists."""
_CACHED_WORDS = 100_000
_PUNCTUATION = ".,;:!?\"'()[]{}<>*-_/|\\•·■…“”„‘’«»–—§#&+=~%$"  # noqa: RUF001
_PARTS = re.compile(r"[-‐‑–—/&]+")  # noqa: RUF001
_NO_WORD = re.compile(r"\d|@|//|www\.|\.(?:com|gov|org|net|us|edu)\b", re.IGNORECASE)
"""Numbers, codes, and addresses of web pages and of mail."""


@dataclass(frozen=True)
class WordCount:
    """How many words of a text are in the word list."""

    known: int
    total: int

    @property
    def share(self) -> float:
        return self.known / self.total if self.total else 0.0


class WordList:
    """The words of one or more languages."""

    def __init__(self, graphs: Sequence[_WordGraph]) -> None:
        self.graphs = graphs
        self.cache: dict[str, bool] = {}

    def count(self, text: str) -> WordCount:
        """Count the known words. Numbers, codes, addresses, words of one or two letters and words with letters of other
        languages are left out."""
        return self._count(text.split())

    def estimate(self, text: str) -> WordCount:
        """Like `count`; of a long text with hardly any unknown word, only a sample of the words is counted."""
        tokens = text.split()
        if len(tokens) > 2 * _SAMPLE:
            sample = self._count(tokens[:: len(tokens) // _SAMPLE])
            if sample.total >= _SAMPLE / 2 and sample.share >= _CLEARLY_GOOD:
                return sample
        return self._count(tokens)

    def _count(self, tokens: list[str]) -> WordCount:
        known = total = 0
        for token in tokens:
            word = token.strip(_PUNCTUATION)
            if len(word) < _MIN_LETTERS:
                continue
            is_known = self.cache.get(word)
            if is_known is None:
                if (not word.isalpha() and _is_no_word(word)) or self._is_foreign(word):
                    continue
                if len(self.cache) >= _CACHED_WORDS:
                    self.cache.clear()
                is_known = self.cache[word] = self._is_known(word)
            total += 1
            known += is_known
        return WordCount(known, total)

    def _is_foreign(self, word: str) -> bool:
        """Whether it has a letter that none of the languages has: it is no wrong word, but one of another language."""
        if word.isascii():
            return False
        return any(letter.isalpha() and not any(letter in graph.characters for graph in self.graphs) for letter in word)

    def _is_known(self, word: str) -> bool:
        if self._is_known_in_any_case(word):
            return True
        parts = _PARTS.split(word.replace("’", "'"))  # noqa: RUF001
        return all(self._is_known_in_any_case(part.removesuffix("'s").removesuffix("'S")) for part in parts if part)

    def _is_known_in_any_case(self, word: str) -> bool:
        return any(word in graph or word.lower() in graph or word.capitalize() in graph for graph in self.graphs)


def _is_no_word(token: str) -> bool:
    """Whether it is a number, a code, an address, or has too few letters."""
    return bool(_NO_WORD.search(token)) or sum(map(str.isalpha, token)) < _MIN_LETTERS


class _WordGraph:
    """The word list of one model."""

    def __init__(
        self, model: Path, start: int, edge_count: int, character_bits: int, characters: dict[str, int]
    ) -> None:
        self.model = model
        self.start = start
        """Of the first edge, in the file."""
        self.edge_count = edge_count
        self.characters = characters
        self.mask = (1 << character_bits) - 1
        self.flags_from = character_bits
        self.next_from = character_bits + _FLAG_BITS
        self.nodes: dict[int, dict[int, tuple[int, int]]] = {}
        """Index of a node's first edge → number of a character → (next node, flags)."""

    @functools.cached_property
    def _descriptor(self) -> int:
        """Opened by the first lookup, not by `load`: a forked process has none of its parent's descriptors."""
        return os.open(self.model, os.O_RDONLY | os.O_CLOEXEC)

    def __contains__(self, word: str) -> bool:
        node = flags = 0
        for position, character in enumerate(word):
            number = self.characters.get(character)
            if number is None or (position and not node):
                return False
            edge = self._node(node).get(number)
            if edge is None:
                return False
            node, flags = edge
        return bool(flags & _WORD_END)

    def _node(self, first: int) -> dict[int, tuple[int, int]]:
        node = self.nodes.get(first)
        if node is None:
            node = self.nodes[first] = {}
            for edge in self._edges_from(first):
                flags = edge >> self.flags_from & 7
                if not flags & _BACKWARD:
                    number, (_, earlier) = edge & self.mask, node.get(edge & self.mask, (0, 0))
                    node[number] = edge >> self.next_from, flags | earlier & _WORD_END
                if flags & _LAST_EDGE:
                    break
        return node

    def _edges_from(self, first: int) -> Iterator[int]:
        for index in range(first, self.edge_count, _EDGES_PER_READ):
            count = min(_EDGES_PER_READ, self.edge_count - index)
            content = os.pread(self._descriptor, 8 * count, self.start + 8 * index)
            yield from struct.unpack(f"<{len(content) // 8}Q", content)


@functools.cache
def load(models: Path, languages: str) -> WordList | None:
    """The word list of these languages, joined with `+`. None if one of them has none."""
    graphs = []
    for language in languages.split("+"):
        if language == "osd":  # detects orientation, not a language
            continue
        model = models / f"{language}.traineddata"
        graph = None if language.startswith(_WITHOUT_SPACES) or not model.is_file() else _read_model(model)
        if graph is None:
            return None
        graphs.append(graph)
    return WordList(graphs) if graphs else None


def _read_model(model: Path) -> _WordGraph | None:
    """None for models without word list, and for scripts in which a character of the model is several of Unicode."""
    with model.open("rb", buffering=0) as file:
        (count,) = struct.unpack("<i", os.pread(file.fileno(), 4, 0))
        if not _CHARACTERS_ENTRY < count < _MAX_ENTRIES:
            return None
        starts = struct.unpack(f"<{count}q", os.pread(file.fileno(), 8 * count, 4))
        words, characters = starts[_WORDS_ENTRY], starts[_CHARACTERS_ENTRY]
        if words < 0 or characters < 0:
            return None
        magic, character_count, edge_count = _DAWG_HEADER.unpack(os.pread(file.fileno(), _DAWG_HEADER.size, words))
        end = min((start for start in starts if start > characters), default=os.fstat(file.fileno()).st_size)
        numbers = _character_numbers(os.pread(file.fileno(), end - characters, characters).decode())
    if magic != _DAWG_MAGIC or sum(len(name) > 1 for name in numbers) > 0.1 * len(numbers):
        return None
    return _WordGraph(model, words + _DAWG_HEADER.size, edge_count, character_count.bit_length(), numbers)


def _character_numbers(character_set: str) -> dict[str, int]:
    """Each line of a character set begins with the character. The first line is their number."""
    _, *lines = character_set.splitlines()
    return {line.partition(" ")[0]: number for number, line in enumerate(lines)}
