"""Votes and people on labelled pages in many styles, and the rules that keep a result from being wrong.

The pages are invented; tests/bench/vote_scores.py describes their form. They are a regression test: the rules were
corrected with them, so they do not show how good the rules are on other pages (docs/extraction.md does).
"""

from __future__ import annotations

from typing import Any

import pytest

from clerk.extraction.rules import Rules
from clerk.extraction.schema import validate
from tests.bench.extraction import OWN_PAGES
from tests.bench.vote_scores import Scores, add_page, align, load_pages, same_name

PAGES = dict(load_pages(OWN_PAGES))


def find_votes(*pages: str) -> list[dict[str, Any]]:
    numbered = list(enumerate(pages, 1))
    found = Rules().extract(numbered)
    validate("rules", found, [number for number, _ in numbered])
    return [vote for number, _ in numbered for vote in found[number]["votes"]]


@pytest.mark.parametrize("name", PAGES)
def test_a_labelled_page(name: str) -> None:
    scores = Scores()
    add_page(scores, name, PAGES[name], Rules().extract([(1, PAGES[name]["text"])])[1])
    assert scores.differences == []


MOVED = "Member Adair moved that Ordinance 12 be adopted. Member Lowry seconded."


@pytest.mark.parametrize(
    ("text", "result", "contradictory"),
    [
        (f"{MOVED} Ayes: 4, Nays: 4.", "", False),
        (f"{MOVED} Ayes: 4, Nays: 4. FAILED.", "failed", False),
        (f"{MOVED} Ayes: 3, Nays: 4.", "failed", False),
        (f"{MOVED} Ayes: 5, Nays: 4.", "passed", False),
        (f"{MOVED} Ayes: 3, Nays: 1, Abstain: 3.", "", False),
        (f"{MOVED} A two-thirds vote is required. Ayes: 5, Nays: 4.", "", False),
        (f"{MOVED} The motion carried 3-4.", "passed", True),
        (f"{MOVED} The motion carried 4-4.", "passed", True),
        (f"{MOVED} The motion failed 5-1.", "failed", True),
        (f"{MOVED} The motion failed 5-4, two-thirds being required.", "failed", False),
        (f"{MOVED} The motion carried unanimously, 4-1.", "passed", True),
        ("The appeal was denied 5-0. Ayes: 5, Nays: 0.", "", False),
        ("Failed. Yeas 12. Nays 9.", "failed", True),
    ],
)
def test_the_result_is_never_guessed(text: str, result: str, contradictory: bool) -> None:
    (vote,) = find_votes(text)
    assert (vote["result"], vote.get("contradictory", False)) == (result, contradictory)


@pytest.mark.parametrize(
    "text",
    [
        MOVED,
        f"{MOVED} The motion died for lack of a second.",
        f"{MOVED} Member Adair withdrew the motion. The next motion carried in 2019.",
        f"{MOVED} Member Fox said that a similar ordinance was adopted in other towns.",
        f"{MOVED} The item was continued to June without a vote.",
        "Staff asks what happens if the motion passed. The ordinance adopted in 2019 was repealed.",
        "The measure failed 4,120 to 3,877 last fall.",
    ],
)
def test_a_motion_without_a_vote_is_not_a_vote(text: str) -> None:
    assert find_votes(text) == []


MOTIONS = {
    f"{MOVED} The motion to adopt Ordinance 12 received a roll call vote of Ayes: 5, Nays: 0.": (
        "that Ordinance 12 be adopted"
    ),
    "A motion to pay Acme, Inc. $5,000 was made by Lee and seconded by Fox. Carried.": "to pay Acme, Inc. $5,000",
    "Lee moved to adjourn at 9:02 p.m. Fox seconded. Carried.": "to adjourn at 9:02 p.m.",
    "Motion by Lee, second by Fox, to adopt Res. No. 7 (fees; fines). Carried.": "to adopt Res. No. 7 (fees; fines)",
    "Moved by Lee\nSeconded by Fox\nTHAT By-law 7 be read a third time and passed.\nCARRIED": (
        "THAT By-law 7 be read a third time and passed"
    ),
    "On motion of Lee, seconded by Fox, and unanimously carried, the Board approved the bills.": (
        "the Board approved the bills"
    ),
    "Lee moved Council Bill 118. Fox seconded. Motion carried.": "Council Bill 118",
}


@pytest.mark.parametrize(("text", "motion"), MOTIONS.items())
def test_the_motion_is_stored_whole_and_without_what_follows(text: str, motion: str) -> None:
    assert [vote["motion"] for vote in find_votes(text)] == [motion]


def test_a_motion_is_resumed_after_the_vote_on_its_amendment() -> None:
    votes = find_votes(
        f"{MOVED} Member Lowry moved to amend Ordinance 12. Member Fox seconded. The motion carried 5-0. "
        "The motion to adopt Ordinance 12 as amended carried 4-1."
    )
    assert [(vote["motion_by"], vote["seconded_by"]) for vote in votes] == [("Lowry", "Fox"), ("Adair", "Lowry")]
    assert votes[1]["motion"] == "that Ordinance 12 be adopted"


def test_the_end_of_a_vote_on_the_next_page_is_not_a_second_vote() -> None:
    votes = find_votes(MOVED, "Ayes: Adair, Lowry. Nays: None. Motion carried.\n\n2. Adjournment.")
    assert [vote["result"] for vote in votes] == ["passed"]


def test_quotations_keep_the_wording_of_a_spanish_page() -> None:
    text = "ACTA DE LA SESIÓN DEL PLENO. A propuesta de D. José Gil se aprueba por unanimidad el acta de Dª. Ana Ruiz."
    assert find_votes(text)[0]["raw_text"].startswith("A propuesta de D. José Gil")
    persons = Rules().extract([(1, text)])[1]["persons"]
    assert {person["text"] for person in persons} == {"José Gil", "Ana Ruiz"}


def test_labels_and_findings_are_paired_in_their_order() -> None:
    """The measure of bin/bench extraction: a missed vote does not shift the others."""
    labels = [PAGES["iqm2-table"]["votes"][index] for index in (0, 1, 2)]
    found = Rules().extract([(1, PAGES["iqm2-table"]["text"])])[1]["votes"]
    assert align(labels, found) == {0: 0, 1: 1, 2: 2}
    assert align(labels, found[1:]) == {1: 0, 2: 1}
    assert align(labels, []) == {}
    assert same_name("Dana O'Neill", "O\u2019Neill")
    assert not same_name("Dana Lee", "Bo Lee")
