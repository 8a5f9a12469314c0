"""Whatever an extractor returns is checked; what is kept of it can be trusted, or is not used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clerk.errors import InvalidExtractorOutput
from clerk.extraction import cache
from clerk.extraction.schema import Findings, validate

VOTE = {
    "motion_by": "A",
    "result": "passed",
    "tally": {"ayes": 5},
    "individual_votes": [{"name": "A", "vote": "aye"}],
    "raw_text": "A moved",
}


def test_the_form_is_the_designs() -> None:
    found = {1: {"persons": [{"text": "A", "confidence": 0.5, "role": "Mayor"}], "votes": [VOTE]}}
    pages = validate("x", found, [1, 2])
    assert json.loads(pages[1].entities_json) == {
        "persons": [{"text": "A", "confidence": 0.5, "role": "Mayor"}],
        "orgs": [],
        "locations": [],
    }
    assert json.loads(pages[1].votes_json) == {
        "votes": [
            {
                "motion": None,
                "motion_by": "A",
                "seconded_by": None,
                "result": "passed",
                "tally": {"ayes": 5, "nays": None, "abstain": None, "absent": None},
                "individual_votes": [{"name": "A", "vote": "aye"}],
                "raw_text": "A moved",
            }
        ]
    }
    assert json.loads(pages[2].votes_json) == {"votes": []}


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {3: {}},
        {"1": {}},
        {1: []},
        {1: {"persons": {}}},
        {1: {"persons": [None]}},
        {1: {"persons": [{"text": "", "confidence": 1}]}},
        {1: {"persons": [{"text": 5, "confidence": 1}]}},
        {1: {"persons": [{"text": "A"}]}},
        {1: {"persons": [{"text": "A", "confidence": 1.5}]}},
        {1: {"persons": [{"text": "A", "confidence": float("nan")}]}},
        {1: {"persons": [{"text": "A", "confidence": True}]}},
        {1: {"persons": [{"text": "A", "confidence": 1}] * 3000}},
        {1: {"votes": [{**VOTE, "raw_text": None}]}},
        {1: {"votes": [{**VOTE, "result": "maybe"}]}},
        {1: {"votes": [{**VOTE, "result": []}]}},
        {1: {"votes": [{**VOTE, "tally": {"ayes": -1}}]}},
        {1: {"votes": [{**VOTE, "tally": {"ayes": "5"}}]}},
        {1: {"votes": [{**VOTE, "individual_votes": [{"name": "A", "vote": "perhaps"}]}]}},
    ],
)
def test_nonsense_is_refused_with_the_extractors_name(found: Any) -> None:
    with pytest.raises(InvalidExtractorOutput, match="extractor crooked"):
        validate("crooked", found, [1, 2])


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    texts = [(1, "a"), (3, "b")]
    kept = cache.CachedFindings("rules", "1", cache.text_hash(texts), {1: Findings("{}", "{}"), 3: Findings("é", "{}")})
    path = tmp_path / "txt" / "extracted.json"
    cache.save(path, kept)
    assert cache.load(path) == kept
    assert cache.findings_for(path, texts) == kept.pages
    for others in ([(1, "a")], [(1, "ab"), (3, "")], [(1, "a"), (2, "b")], [(1, "a"), (3, "c")]):
        assert cache.findings_for(path, others) == {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"form": 1}', b'{"form": 99, "pages": []}', b"\xff\xfe", b"[" * 100_000, b"null"]
)
def test_what_cannot_be_used_counts_for_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "extracted.json"
    path.write_bytes(content)
    assert cache.load(path) is None
    assert cache.findings_for(path, [(1, "a")]) == {}
