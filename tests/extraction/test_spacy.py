"""The optional spaCy extractor. Tests that need spaCy or a model are skipped without them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from clerk.errors import SpacyUnavailable
from clerk.extraction.builtin import extractor
from clerk.extraction.schema import validate
from clerk.extraction.spacy import DEFAULT_MODEL, SpacyExtractor, parse_label

HAS_SPACY = importlib.util.find_spec("spacy") is not None
HAS_MODEL = HAS_SPACY and importlib.util.find_spec(DEFAULT_MODEL) is not None


def test_labels() -> None:
    assert parse_label("spacy") == DEFAULT_MODEL
    assert parse_label("spacy-xx_ent_wiki_sm") == "xx_ent_wiki_sm"
    assert parse_label("spacy-") is None
    assert parse_label("rules") is None
    assert extractor("nobody") is None


@pytest.mark.skipif(HAS_SPACY, reason="spaCy is installed")
def test_without_spacy_the_error_names_the_package() -> None:
    with pytest.raises(SpacyUnavailable, match=r"clerk\[spacy\]"):
        extractor("spacy")


@pytest.mark.skipif(not HAS_SPACY, reason="spaCy is not installed: pip install clerk[spacy]")
def test_without_a_model_the_error_names_the_download() -> None:
    with pytest.raises(SpacyUnavailable, match="spacy download en_no_such_model"):
        extractor("spacy-en_no_such_model")


@pytest.mark.skipif(not HAS_SPACY, reason="spaCy is not installed: pip install clerk[spacy]")
def test_findings_of_a_model_are_added_to_those_of_the_rules(tmp_path: Path) -> None:
    """The model is created here and knows two names."""
    import spacy

    language = spacy.blank("en")
    ruler: Any = language.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": "Joan Doe"}, {"label": "GPE", "pattern": "Berlin"}])
    language.to_disk(tmp_path / "model")
    spacy_extractor = SpacyExtractor(str(tmp_path / "model"))
    found = spacy_extractor.extract([(1, "Joan Doe flew to Berlin. Mayor Ellen Ortiz stayed."), (2, "")])
    validate("spacy", found, [1, 2])
    assert {entry["text"]: entry["confidence"] for entry in found[1]["persons"]} == {
        "Joan Doe": 0.75,
        "Ellen Ortiz": 0.95,
    }
    assert [entry["text"] for entry in found[1]["locations"]] == ["Berlin"]
    assert "rules" in spacy_extractor.version


@pytest.mark.skipif(not HAS_MODEL, reason=f"spaCy's model {DEFAULT_MODEL} is not installed")
def test_a_model_finds_names_that_the_rules_do_not() -> None:
    spacy_extractor = extractor("spacy")
    assert spacy_extractor is not None
    found = spacy_extractor.extract(
        [(1, "Yesterday Barack Obama flew from Chicago to Berlin. Mayor Ellen Ortiz stayed.")]
    )
    validate("spacy", found, [1])
    assert {"Barack Obama", "Ellen Ortiz"} <= {entry["text"] for entry in found[1]["persons"]}
    assert {"Chicago", "Berlin"} <= {entry["text"] for entry in found[1]["locations"]}
