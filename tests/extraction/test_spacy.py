"""The optional extractor: with spaCy and a model it is really run, without it says what to install."""

from __future__ import annotations

import importlib.util

import pytest

from clerk.extraction.contract import checked
from clerk.plugins.extractors import extractor
from clerk.plugins.extractors.spacy import DEFAULT_MODEL, SpacyUnavailable, model_named

HAS_SPACY = importlib.util.find_spec("spacy") is not None
HAS_MODEL = HAS_SPACY and importlib.util.find_spec(DEFAULT_MODEL) is not None


def test_labels() -> None:
    assert model_named("spacy") == DEFAULT_MODEL
    assert model_named("spacy-xx_ent_wiki_sm") == "xx_ent_wiki_sm"
    assert model_named("spacy-") is None
    assert model_named("rules") is None
    assert extractor("nobody") is None


@pytest.mark.skipif(HAS_SPACY, reason="spaCy is installed")
def test_without_spacy_it_says_what_to_install() -> None:
    with pytest.raises(SpacyUnavailable, match=r"clerk\[spacy\]"):
        extractor("spacy")


@pytest.mark.skipif(not HAS_SPACY, reason="spaCy is not installed: pip install clerk[spacy]")
def test_without_a_model_it_says_what_to_download() -> None:
    with pytest.raises(SpacyUnavailable, match="spacy download en_no_such_model"):
        extractor("spacy-en_no_such_model")


@pytest.mark.skipif(not HAS_MODEL, reason=f"spaCy's model {DEFAULT_MODEL} is not installed")
def test_with_a_model_it_finds_what_the_rules_do_not() -> None:
    reader = extractor("spacy")
    assert reader is not None
    found = reader.extract([(1, "Yesterday Barack Obama flew from Chicago to Berlin. Mayor Ellen Ortiz stayed.")])
    checked("spacy", found, [1])
    assert {"Barack Obama", "Ellen Ortiz"} <= {one["text"] for one in found[1]["persons"]}
    assert {"Chicago", "Berlin"} <= {one["text"] for one in found[1]["locations"]}
