"""Interface of extractors, and validation of their output.

A plugin provides an extractor with the hook `extractor(label)`. It gets all pages of a document in one call, because
the members of a body may be listed on the first page and named in a vote on the ninth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from clerk.errors import InvalidExtractorOutput

VOTES = ("aye", "nay", "abstain", "absent")
RESULTS = ("passed", "failed", "tabled")
_TALLY = ("ayes", "nays", "abstain", "absent")
_MAX_ENTRIES = 2000
"""Of each kind on one page."""
_MAX_TEXT_LENGTH = 4000


class Extractor(Protocol):
    version: str
    """A new version invalidates cached findings: documents are extracted again."""

    def extract(self, pages: Sequence[tuple[int, str]]) -> Mapping[int, Mapping[str, Any]]:
        """Return {page number: {"persons": [mention, …], "orgs": […], "locations": […], "votes": [vote, …]}}.

        A mention is {"text", "confidence"} with an optional "role". A vote is {"raw_text"} with the optional keys
        "motion", "motion_by", "seconded_by", "result" (empty if the text does not tell it), "tally",
        "individual_votes" and "contradictory" (true if stated result and tally disagree). Pages without findings may be
        omitted.
        """
        ...


@dataclass(frozen=True)
class Findings:
    """Findings on a page as stored in meetings.db: JSON with sorted keys, so that equal findings are equal texts."""

    entities_json: str
    votes_json: str


def check_interface(label: str, plugin: str, extractor: object) -> Extractor:
    """Return what a plugin provides as an extractor. Raises InvalidExtractorOutput if it is none."""
    if isinstance(extractor, type):
        what = f"is the class {extractor.__name__}: return an object, {extractor.__name__}()"
    elif not isinstance(version := getattr(extractor, "version", None), str):
        what = f'has the version {version!r}: it must be text, such as version = "1"'
    elif not callable(getattr(extractor, "extract", None)):
        what = "has no method extract(pages)"
    else:
        return cast("Extractor", extractor)
    raise InvalidExtractorOutput(f"the extractor {label} of plugin {plugin} {what}")


def validate(label: str, output: object, numbers: Sequence[int]) -> dict[int, Findings]:
    """Return the findings of each page number. Raises InvalidExtractorOutput if the output is invalid."""
    try:
        pages = _mapping(output, "the result")
        if unknown := set(pages) - set(numbers):
            raise ValueError(f"there is no page {min(unknown, key=str)!r}")
        return {number: _findings(_mapping(pages.get(number, {}), f"page {number}"), number) for number in numbers}
    except ValueError as error:
        raise InvalidExtractorOutput(f"extractor {label} returned invalid output: {error}") from error


def _findings(page: Mapping[Any, Any], number: int) -> Findings:
    entities = {
        kind: [_mention(entry, f"{kind} of page {number}") for entry in _list(page, kind, f"page {number}")]
        for kind in ("persons", "orgs", "locations")
    }
    votes = [_vote(entry, f"votes of page {number}") for entry in _list(page, "votes", f"page {number}")]
    return Findings(_json(entities), _json({"votes": votes}))


def _mention(entry: object, where: str) -> dict[str, Any]:
    mention = _mapping(entry, where)
    confidence = mention.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise ValueError(f"{where}: confidence is {confidence!r}, not a number from 0 to 1")
    valid = {"text": _text(mention, "text", where), "confidence": round(float(confidence), 3)}
    return valid | ({"role": role} if (role := _optional_text(mention, "role", where)) else {})


def _vote(entry: object, where: str) -> dict[str, Any]:
    vote = _mapping(entry, where)
    result = "" if vote.get("result") is None else vote["result"]
    if not isinstance(result, str) or result not in ("", *RESULTS):
        raise ValueError(f"{where}: result is {result!r}, not one of {', '.join(RESULTS)} or empty")
    contradictory = vote.get("contradictory", False)
    if not isinstance(contradictory, bool):
        raise ValueError(f"{where}: contradictory is {contradictory!r}, not true or false")
    tally = _mapping(vote.get("tally") or {}, f"{where}: tally")
    valid = {
        "motion": _optional_text(vote, "motion", where),
        "motion_by": _optional_text(vote, "motion_by", where),
        "seconded_by": _optional_text(vote, "seconded_by", where),
        "result": result,
        "tally": {key: _count(tally.get(key), where) for key in _TALLY},
        "individual_votes": [_ballot(entry, where) for entry in _list(vote, "individual_votes", where)],
        "raw_text": _text(vote, "raw_text", where),
    }
    return valid | ({"contradictory": True} if contradictory else {})


def _ballot(entry: object, where: str) -> dict[str, str]:
    ballot = _mapping(entry, where)
    if ballot.get("vote") not in VOTES:
        raise ValueError(f"{where}: vote is {ballot.get('vote')!r}, not one of {', '.join(VOTES)}")
    return {"name": _text(ballot, "name", where), "vote": ballot["vote"]}


def _count(value: object, where: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000):
        return value
    raise ValueError(f"{where}: tally contains {value!r}, not a number from 0 to 9999")


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {type(value).__name__}, not a mapping")
    return value


def _list(mapping: Mapping[Any, Any], key: str, where: str) -> Sequence[Any]:
    value = mapping.get(key, ())
    if not isinstance(value, list | tuple):
        raise ValueError(f"{key} of {where} is {type(value).__name__}, not a list")
    if len(value) > _MAX_ENTRIES:
        raise ValueError(f"{key} of {where} has {len(value)} entries, more than {_MAX_ENTRIES}")
    return value


def _text(mapping: Mapping[Any, Any], key: str, where: str) -> str:
    value = _optional_text(mapping, key, where)
    if not value:
        raise ValueError(f"{where}: {key} is missing or empty")
    return value


def _optional_text(mapping: Mapping[Any, Any], key: str, where: str) -> str | None:
    value = mapping.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{where}: {key} is {type(value).__name__}, not text")
    return value[:_MAX_TEXT_LENGTH] if value else None


def with_result_text(votes_json: str) -> str:
    """Return findings of an earlier version, where an unknown result was null, with an empty text instead."""
    # Within a text value the quotation marks would be escaped, so this matches keys only.
    return votes_json.replace('"result": null', '"result": ""')


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
