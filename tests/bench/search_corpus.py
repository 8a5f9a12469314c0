"""Pages for `bin/bench search`: sentences of samples, recombined, with names, numbers and rare words."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from clerk.archive.terms import PageTerms
from clerk.demo.documents import HIDDEN_WORD

_BODIES = [
    "City Council", "Planning Commission", "School Board", "Zoning Board", "Parks and Recreation", "Board of Health",
    "Finance Committee", "Library Trustees", "Harbor Commission", "Conservation Commission",
]  # fmt: skip
_OWN_SENTENCES = [
    f"The {body} {verb} the {thing} {place}."
    for body, verb, thing, place in itertools.product(
        ["council", "board", "committee", "mayor"],
        ["approved", "discussed", "tabled", "rejected"],
        ["budget amendment", "tree cutting ordinance", "bike lanes", "water main contract", "zoning variance"],
        ["on Main Street", "for the school", "after a public hearing", "by a vote of 5-0"],
    )
] + ["Se aprueba la ordenanza sobre el presupuesto por unanimidad.", f"The {HIDDEN_WORD} was found in the attic."]
_SENTENCES_PER_PAGE = (6, 22)
_SYLLABLES = [f"{consonant}{vowel}" for consonant in "bcdfghklmnpr" for vowel in "aeo"]


@dataclass(frozen=True)
class BenchPage:
    site: str
    id: str
    body: str
    date: str
    page: int
    words: str
    stems: str


def read_sentences(samples: Path | None) -> list[str]:
    """Sentences of the PDFs, texts and labelled pages below `samples`; without it, generated ones."""
    if samples is None:
        return _OWN_SENTENCES
    texts: list[str] = []
    for path in sorted(samples.rglob("*")):
        if path.suffix == ".txt":
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
        elif path.suffix == ".json":
            content = json.loads(path.read_bytes())
            texts.append(str(content.get("text", "")) if isinstance(content, dict) else "")
        elif path.suffix == ".pdf" and "hostile" not in path.parts:
            done = subprocess.run(["pdftotext", "-q", str(path), "-"], capture_output=True, timeout=60, check=False)
            texts.append(done.stdout.decode(errors="replace"))
    sentences = (part.strip() for text in texts for part in re.split(r"(?<=[.;:])\s+|\n\s*\n", text))
    return sorted({sentence for sentence in sentences if 4 <= len(sentence.split()) <= 60}) or _OWN_SENTENCES


def rare_word(number: int) -> str:
    """A made-up name. Low numbers are drawn more often (see `pages`)."""
    parts = []
    for _ in range(4):
        number, rest = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[rest])
    return "".join(parts)


def pages(count: int, sites: int, sentences: list[str], seed: int = 1) -> Iterator[BenchPage]:
    """`count` pages, site by site. Sentences are drawn with Zipf-like weights: a few are on many pages."""
    generator = random.Random(seed)  # noqa: S311 (not for cryptography)
    terms = [PageTerms.of(sentence) for sentence in sentences]
    prepared = [(" ".join(term.words), " ".join(term.stems)) for term in terms]
    generator.shuffle(prepared)
    weights = list(itertools.accumulate(1 / (rank + 20) for rank in range(len(prepared))))
    for number in range(count):
        site = number * sites // count
        chosen = generator.choices(prepared, cum_weights=weights, k=generator.randint(*_SENTENCES_PER_PAGE))
        rare = [rare_word(int(generator.paretovariate(0.6)) % 1_000_000) for _ in range(12)]
        rare += [str(generator.randint(1000, 999_999)), f"20{generator.randint(10, 26)} {generator.randint(1, 300)}"]
        names = " ".join(rare)
        day = date(2005, 1, 1) + timedelta(days=generator.randint(0, 7500))
        yield BenchPage(
            f"town{site:04}",
            f"{number:012x}",
            generator.choice(_BODIES),
            day.isoformat(),
            number % 20 + 1,
            " ".join([names, *(words for words, _ in chosen)]),
            " ".join([names, *(stems for _, stems in chosen)]),
        )
