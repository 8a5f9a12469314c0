"""Votes in the wordings of different minutes. The sentences are invented."""

from __future__ import annotations

from typing import Any

import pytest

from clerk.extraction.rules import Rules
from clerk.extraction.schema import validate


def votes(*pages: str) -> list[list[dict[str, Any]]]:
    numbered = list(enumerate(pages, 1))
    found = Rules().extract(numbered)
    validate("rules", found, [number for number, _ in numbered])
    return [found[number]["votes"] for number, _ in numbered]


def summarize(vote: dict[str, Any]) -> dict[str, Any]:
    """Return the known values of a vote, without the raw text."""
    short = {key: vote[key] for key in ("motion", "motion_by", "seconded_by", "result") if vote[key]}
    tally = {key: number for key, number in vote["tally"].items() if number is not None}
    roll = {ballot["name"]: ballot["vote"] for ballot in vote["individual_votes"]}
    return short | ({"tally": tally} if tally else {}) | ({"roll": roll} if roll else {})


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "passive, with a counted roll": (
        (
            "A motion was made by Council Member Whitfield, seconded by Vice Mayor Okafor, to approve the"
            " Consent Calendar. The motion carried by the following vote:\n"
            "Aye: 3 - Ortiz, Okafor, and Hall\nNay: 0\nAbsent: 1 - O'Neill\n"
        ),
        {
            "motion": "to approve the Consent Calendar",
            "motion_by": "Whitfield",
            "seconded_by": "Okafor",
            "result": "passed",
            "tally": {"ayes": 3, "nays": 0, "absent": 1},
            "roll": {"Ortiz": "aye", "Okafor": "aye", "Hall": "aye", "O'Neill": "absent"},
        },
    ),
    "active, with numbers and a dissenter": (
        (
            "Council Member Chen moved to adopt Ordinance 89-2018 amending Chapter 5. Council Member Marsh seconded."
            " Motion carried 4-1 with Council Member Whitfield voting no."
        ),
        {
            "motion": "to adopt Ordinance 89-2018 amending Chapter 5",
            "motion_by": "Chen",
            "seconded_by": "Marsh",
            "result": "passed",
            "tally": {"ayes": 4, "nays": 1},
            "roll": {"Whitfield": "nay"},
        },
    ),
    "a table with the result first": (
        (
            "RESULT: APPROVED [UNANIMOUS]\nMOVER: Dana Whitfield, Council Member\n"
            "SECONDER: Robert Marsh, Council Member\n"
            "AYES: Ellen Ortiz, Sam Okafor, Dana Whitfield\nABSENT: Teresa O'Neill\n"
        ),
        {
            "motion_by": "Dana Whitfield",
            "seconded_by": "Robert Marsh",
            "result": "passed",
            "tally": {"ayes": 3, "nays": 0, "absent": 1},
            "roll": {"Ellen Ortiz": "aye", "Sam Okafor": "aye", "Dana Whitfield": "aye", "Teresa O'Neill": "absent"},
        },
    ),
    "the seconder before the verb": (
        "Commissioner Price, seconded by Commissioner Cutler, moved to continue it today. Motion passed unanimously.",
        {
            "motion": "to continue it today",
            "motion_by": "Price",
            "seconded_by": "Cutler",
            "result": "passed",
            "tally": {"nays": 0},
        },
    ),
    "names joined to votes by a dash": (
        "The vote was as follows: Burgess-yes, Armstrong-yes, Harker-no, and Cochran-yes. The motion passed 3-1.",
        {
            "result": "passed",
            "tally": {"ayes": 3, "nays": 1},
            "roll": {"Burgess": "aye", "Armstrong": "aye", "Cochran": "aye", "Harker": "nay"},
        },
    ),
    "a line for each voter": (
        (
            "Motion by Trustee Gray, second by Trustee Boyd, to deny the appeal. Roll call vote:\n"
            "Trustee Lowe     Aye\nTrustee Finch    Nay\nTrustee Stone    Abstain\nThe motion failed."
        ),
        {
            "motion": "to deny the appeal",
            "motion_by": "Gray",
            "seconded_by": "Boyd",
            "result": "failed",
            "tally": {"ayes": 1, "nays": 1, "abstain": 1},
            "roll": {"Lowe": "aye", "Finch": "nay", "Stone": "abstain"},
        },
    ),
    "all in capitals": (
        "MOTION BY COUNCILMAN SMITH SECONDED BY COUNCILWOMAN O'BRIEN TO ADJOURN AT 9:15 PM. ALL AYES. MOTION CARRIED.",
        {
            "motion": "TO ADJOURN AT 9:15 PM",
            "motion_by": "Smith",
            "seconded_by": "O'Brien",
            "result": "passed",
            "tally": {"nays": 0},
        },
    ),
    "numbers after the result": (
        "Read third time in full. Passed. Yeas 20. Nays 1.",
        {"result": "passed", "tally": {"ayes": 20, "nays": 1}},
    ),
    "a vote that fails": (
        "It was moved by Member Diaz and seconded by Member Fry to table the request. The motion failed 2-3.",
        {
            "motion": "to table the request",
            "motion_by": "Diaz",
            "seconded_by": "Fry",
            "result": "failed",
            "tally": {"ayes": 2, "nays": 3},
        },
    ),
    "voters in prose": (
        "Motion passed with Commissioners Blaisdell, Boykin and Southwick voting aye and Commissioner Zane voting no.",
        {"result": "passed", "roll": {"Blaisdell": "aye", "Boykin": "aye", "Southwick": "aye", "Zane": "nay"}},
    ),
    "a scan that split words and lines": (
        (
            "It was moved by Coun-\ncil Member Ruiz and sec-\nonded by Council Member Ng to approve the lease of"
            " the old\nfire station. The motion carried 5 \u2013 0."
        ),
        {
            "motion": "to approve the lease of the old fire station",
            "motion_by": "Ruiz",
            "seconded_by": "Ng",
            "result": "passed",
            "tally": {"ayes": 5, "nays": 0},
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_vote(name: str) -> None:
    text, expected = CASES[name]
    assert [summarize(vote) for vote in votes(text)[0]] == [expected]


def test_votes_on_one_page_are_separated() -> None:
    (found,) = votes("\n\n".join(f"{number}. {text}" for number, (text, _) in enumerate(CASES.values(), 1)))
    wanted = [expected for _, expected in CASES.values()]
    assert len(found) == len(wanted)
    for vote, expected in zip(found, wanted, strict=True):
        # A vote without a motion of its own gets the title of the agenda item, which only this page has.
        assert summarize(vote) | {"motion": expected.get("motion")} == {"motion": None} | expected


def test_a_vote_may_end_on_the_next_page_and_is_not_reported_twice() -> None:
    first, second = votes(
        "Council Member Chen moved to approve the plan. Council Member Marsh seconded.",
        "Motion carried 4-1.\n\nThe meeting was adjourned.",
    )
    assert [summarize(vote)["tally"] for vote in first] == [{"ayes": 4, "nays": 1}]
    assert [vote for vote in second if vote["motion_by"]] == []


@pytest.mark.parametrize(
    "text",
    [
        "The next meeting is on 11-12. Ordinance 5-0 was read. Approved minutes of 1-12-2021 are in.",
        "Call 555-1212 to vote 11:00 to 12:00 at the library.",
        "Present: Ortiz, Lee. Absent: Marsh. For: the people. No: 5",
        "Staff recommends that the Council move to approve the item.",
        "A second reading of the ordinance was held; the motion picture was shown.",
        "",
        "\n\n\n",
    ],
)
def test_text_without_votes(text: str) -> None:
    assert votes(text) == [[]]
