"""Validation of extractor output, and the cache of findings."""

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


def test_valid_output_is_completed() -> None:
    output = {1: {"persons": [{"text": "A", "confidence": 0.5, "role": "Mayor"}], "votes": [VOTE]}}
    pages = validate("x", output, [1, 2])
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
    "output",
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
def test_invalid_output_is_rejected_with_the_extractors_label(output: Any) -> None:
    with pytest.raises(InvalidExtractorOutput, match="extractor broken"):
        validate("broken", output, [1, 2])


def test_cached_findings_are_valid_for_the_same_texts_only(tmp_path: Path) -> None:
    texts = [(1, "a"), (3, "b")]
    findings = cache.CachedFindings(
        "rules", "1", cache.text_hash(texts), {1: Findings("{}", "{}"), 3: Findings("é", "{}")}
    )
    path = tmp_path / "txt" / "extracted.json"
    cache.save(path, findings)
    assert cache.load(path) == findings
    assert cache.findings_for(path, texts) == findings.pages
    for others in ([(1, "a")], [(1, "ab"), (3, "")], [(1, "a"), (2, "b")], [(1, "a"), (3, "c")]):
        assert cache.findings_for(path, others) == {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"form": 1}', b'{"form": 99, "pages": []}', b"\xff\xfe", b"[" * 100_000, b"null"]
)
def test_an_invalid_cache_is_ignored(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "extracted.json"
    path.write_bytes(content)
    assert cache.load(path) is None
    assert cache.findings_for(path, [(1, "a")]) == {}
