"""People, organisations and places by a spaCy model, joined with the rules; votes by the rules alone.

spaCy says no probability for a name: what only the model found has one confidence, a little under the precision that
its models are published with. Where the rules found the same, theirs counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clerk.errors import SpacyUnavailable
from clerk.extraction.rules import Rules, readable

DEFAULT_MODEL = "en_core_web_sm"
CONFIDENCE = 0.75
_KINDS = {"PERSON": "persons", "ORG": "orgs", "GPE": "locations", "LOC": "locations", "FAC": "locations"}
_LONGEST_NAME = 80
_MOST = 500


def model_named(label: str) -> str | None:
    """`spacy` is the small English model, `spacy-xx_ent_wiki_sm` another one; None for other labels."""
    if label == "spacy":
        return DEFAULT_MODEL
    return label.removeprefix("spacy-") if label.startswith("spacy-") and len(label) > len("spacy-") else None


class SpacyExtractor:
    def __init__(self, model: str) -> None:
        try:
            import spacy
        except ImportError as error:
            raise SpacyUnavailable('spaCy is not installed: pip install "clerk[spacy]"') from error
        try:
            self._language = spacy.load(model, disable=["tagger", "parser", "lemmatizer", "attribute_ruler"])
        except OSError as error:
            raise SpacyUnavailable(f"spaCy has no model {model}: python -m spacy download {model}") from error
        self._rules = Rules()
        found = self._language.meta
        self.version = f"{spacy.__version__} {model} {found.get('version', '?')} rules {self._rules.version}"

    @classmethod
    def of(cls, model: str) -> SpacyExtractor:
        return _loaded(model)

    def extract(self, pages: Sequence[tuple[int, str]]) -> dict[int, dict[str, Any]]:
        found = self._rules.extract(pages)
        texts = ((readable(text)[: self._language.max_length], number) for number, text in pages)
        for parsed, number in self._language.pipe(texts, as_tuples=True):
            page = found[number]
            known = {(kind, one["text"]) for kind in ("persons", "orgs", "locations") for one in page[kind]}
            for entity in parsed.ents:
                kind, text = _KINDS.get(entity.label_), " ".join(entity.text.split())
                if kind and 1 < len(text) <= _LONGEST_NAME and (kind, text) not in known and len(page[kind]) < _MOST:
                    known.add((kind, text))
                    page[kind].append({"text": text, "confidence": CONFIDENCE})
        return found


@lru_cache(maxsize=2)
def _loaded(model: str) -> SpacyExtractor:
    """Models take seconds to load and hundreds of megabytes to hold."""
    return SpacyExtractor(model)
