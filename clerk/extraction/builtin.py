"""Built-in extractors: `rules`, and `spacy` or `spacy-MODEL` if spaCy and a model are installed."""

from __future__ import annotations

from clerk.extraction import spacy
from clerk.extraction.rules import Rules
from clerk.extraction.schema import Extractor
from clerk.plugins.hookspecs import hookimpl


@hookimpl
def provided_labels(hook: str) -> list[str] | None:
    return ["rules", "spacy"] if hook == "extractor" else None


@hookimpl
def extractor(label: str) -> Extractor | None:
    if label == "rules":
        return Rules()
    if (model := spacy.parse_label(label)) is not None:
        return spacy.load(model)
    return None
