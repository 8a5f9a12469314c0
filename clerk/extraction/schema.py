"""What an extractor is, and the form of what it finds. Whatever an extractor returns is checked against that form.

An extractor comes from the hook `extractor(label)`. It gets all pages of a document at once, since who sits on a body
stands on the first page and who voted on the ninth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from clerk.errors import InvalidExtractorOutput

VOTES = ("aye", "nay", "abstain", "absent")
RESULTS = ("passed", "failed", "tabled")
_TALLY = ("ayes", "nays", "abstain", "absent")
_MOST = 2000
"""Of anything on one page. A page with more is not a page of a meeting."""
_LONGEST = 4000


class Extractor(Protocol):
    version: str
    """Another version finds other things: what was cached under the old one is extracted again."""

    def extract(self, pages: Sequence[tuple[int, str]]) -> Mapping[int, Mapping[str, Any]]:
        """Page number → {"persons": [{"text", "confidence", "role"?}], "orgs": […], "locations": […], "votes": […]}.

        A vote is {"motion", "motion_by", "seconded_by", "result", "tally", "individual_votes", "raw_text"}, all but
        the last optional. A page left out has nothing on it.
        """
        ...


@dataclass(frozen=True)
class Findings:
    """What meetings.db has of a page, as JSON with sorted keys: equal findings are equal text."""

    entities_json: str
    votes_json: str


def validate(label: str, found: object, numbers: Sequence[int]) -> dict[int, Findings]:
    """Raises InvalidExtractorOutput, with the extractor's label and the place, for anything but the form."""
    try:
        pages = _mapping(found, "the result")
        if strange := set(pages) - set(numbers):
            raise ValueError(f"there is no page {min(strange, key=str)!r}")
        return {number: _findings(_mapping(pages.get(number, {}), f"page {number}"), number) for number in numbers}
    except ValueError as error:
        raise InvalidExtractorOutput(f"extractor {label} returned nonsense: {error}") from error


def _findings(page: Mapping[Any, Any], number: int) -> Findings:
    entities = {
        kind: [_mention(one, f"{kind} of page {number}") for one in _list(page, kind, number)]
        for kind in ("persons", "orgs", "locations")
    }
    votes = [_vote(one, f"votes of page {number}") for one in _list(page, "votes", number)]
    return Findings(_json(entities), _json({"votes": votes}))


def _mention(one: object, where: str) -> dict[str, Any]:
    mention = _mapping(one, where)
    confidence = mention.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise ValueError(f"{where}: a confidence is {confidence!r}, not a number from 0 to 1")
    checked = {"text": _text(mention, "text", where), "confidence": round(float(confidence), 3)}
    return checked | ({"role": role} if (role := _optional_text(mention, "role", where)) else {})


def _vote(one: object, where: str) -> dict[str, Any]:
    vote = _mapping(one, where)
    result = vote.get("result")
    if result is not None and result not in RESULTS:
        raise ValueError(f"{where}: a result is {result!r}, not one of {', '.join(RESULTS)}")
    tally = _mapping(vote.get("tally") or {}, f"{where}: a tally")
    return {
        "motion": _optional_text(vote, "motion", where),
        "motion_by": _optional_text(vote, "motion_by", where),
        "seconded_by": _optional_text(vote, "seconded_by", where),
        "result": result,
        "tally": {key: _count(tally.get(key), where) for key in _TALLY},
        "individual_votes": [_ballot(one, where) for one in _list(vote, "individual_votes", where)],
        "raw_text": _text(vote, "raw_text", where),
    }


def _ballot(one: object, where: str) -> dict[str, str]:
    ballot = _mapping(one, where)
    if ballot.get("vote") not in VOTES:
        raise ValueError(f"{where}: somebody voted {ballot.get('vote')!r}, not one of {', '.join(VOTES)}")
    return {"name": _text(ballot, "name", where), "vote": ballot["vote"]}


def _count(value: object, where: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000):
        return value
    raise ValueError(f"{where}: a tally has {value!r}")


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {type(value).__name__}, not a mapping")
    return value


def _list(mapping: Mapping[Any, Any], key: str, where: object) -> Sequence[Any]:
    value = mapping.get(key, ())
    if not isinstance(value, list | tuple):
        raise ValueError(f"{key} of {where} is {type(value).__name__}, not a list")
    if len(value) > _MOST:
        raise ValueError(f"{key} of {where} has {len(value)} entries, more than {_MOST}")
    return value


def _text(mapping: Mapping[Any, Any], key: str, where: str) -> str:
    value = _optional_text(mapping, key, where)
    if not value:
        raise ValueError(f"{where}: a {key} is missing or empty")
    return value


def _optional_text(mapping: Mapping[Any, Any], key: str, where: str) -> str | None:
    value = mapping.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{where}: a {key} is {type(value).__name__}, not text")
    return value[:_LONGEST] if value else None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
