"""The built-in extractors: `rules`, and `spacy` (or `spacy-MODEL`) where spaCy and a model are installed.

What an extractor must have is `clerk.extraction.schema.Extractor`: a `version`, and `extract(pages)`.
"""

from __future__ import annotations

from clerk.extraction.rules import Rules
from clerk.extraction.schema import Extractor
from clerk.extraction.spacy import SpacyExtractor, model_named
from clerk.plugins.hookspecs import hookimpl


@hookimpl
def extractor(label: str) -> Extractor | None:
    if label == "rules":
        return Rules()
    if (model := model_named(label)) is not None:
        return SpacyExtractor.of(model)
    return None
