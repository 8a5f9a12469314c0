"""Extractor that adds the people, organisations and places of a spaCy model to the findings of the rules.

spaCy gives no probability for a name. All names that only the model found have one confidence, slightly lower than the
published precision of the models. Votes come from the rules only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clerk.errors import SpacyUnavailable
from clerk.extraction.rules import Rules, normalize

DEFAULT_MODEL = "en_core_web_sm"
CONFIDENCE = 0.75
_KINDS = {"PERSON": "persons", "ORG": "orgs", "GPE": "locations", "LOC": "locations", "FAC": "locations"}
_MAX_NAME_LENGTH = 80
_MAX_MENTIONS = 500


def parse_label(label: str) -> str | None:
    """Return the model of a label: `spacy` is the small English one, `spacy-MODEL` any other; None for other labels."""
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
        model_version = self._language.meta.get("version", "?")
        self.version = f"{spacy.__version__} {model} {model_version} rules {self._rules.version}"

    def extract(self, pages: Sequence[tuple[int, str]]) -> dict[int, dict[str, Any]]:
        findings = self._rules.extract(pages)
        texts = ((normalize(text)[: self._language.max_length], number) for number, text in pages)
        for parsed, number in self._language.pipe(texts, as_tuples=True):
            page = findings[number]
            known = {(kind, mention["text"]) for kind in ("persons", "orgs", "locations") for mention in page[kind]}
            for entity in parsed.ents:
                kind, text = _KINDS.get(entity.label_), " ".join(entity.text.split())
                if (
                    kind
                    and 1 < len(text) <= _MAX_NAME_LENGTH
                    and (kind, text) not in known
                    and len(page[kind]) < _MAX_MENTIONS
                ):
                    known.add((kind, text))
                    page[kind].append({"text": text, "confidence": CONFIDENCE})
        return findings


@lru_cache(maxsize=2)
def load(model: str) -> SpacyExtractor:
    """Load a model, cached: it takes seconds and hundreds of megabytes."""
    return SpacyExtractor(model)
