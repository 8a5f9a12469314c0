"""Scores of extracted votes and people against pages labelled by hand.

A labelled page is a JSON file with `text`, `votes` and `persons`; tests/extraction/pages has examples. A vote has
`mover`, `seconder`, `result` (a list of acceptable answers), `tally`, `roll` (name → vote) and `optional` (counts
neither way). `persons` are names separated by spaces, with `_` between the words of a name.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TALLY = ("ayes", "nays", "abstain", "absent")


@dataclass
class Count:
    """Right, wrong and missing answers of one kind."""

    right: int = 0
    wrong: int = 0
    missing: int = 0

    def add(self, expected: object, found: object, *, equal: bool) -> None:
        if expected is None and found is None:
            return
        if expected is not None and found is not None and equal:
            self.right += 1
            return
        self.wrong += found is not None
        self.missing += expected is not None

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missing) if self.right + self.missing else 1.0

    @property
    def f1(self) -> float:
        return 2 * self.right / total if (total := 2 * self.right + self.wrong + self.missing) else 1.0


@dataclass
class Scores:
    votes: Count = field(default_factory=Count)
    results: Count = field(default_factory=Count)
    movers: Count = field(default_factory=Count)
    tally: Count = field(default_factory=Count)
    roll: Count = field(default_factory=Count)
    people: Count = field(default_factory=Count)
    spanish: Count = field(default_factory=Count)
    motions: Count = field(default_factory=Count)
    """Matched votes with and without the text of a motion. Labels have no such text, so nothing is compared."""
    differences: list[str] = field(default_factory=list)


def load_pages(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]


def add_page(scores: Scores, name: str, page: dict[str, Any], found: dict[str, Any]) -> None:
    """Compare the findings on a page with its labels."""
    labels, votes = page["votes"], found["votes"]
    pairs = align(labels, votes)
    is_spanish = "spanish" in page.get("style", "").lower()

    def differ(what: str) -> None:
        scores.differences.append(f"{name}: {what}")

    for index, label in enumerate(labels):
        if index not in pairs and not label.get("optional"):
            scores.votes.missing += 1
            scores.spanish.missing += is_spanish
            differ(f"missed vote {index + 1} ({label['mover']}/{label['seconder']} {label['tally']})")
    for index, vote in enumerate(votes):
        if index not in pairs.values():
            scores.votes.wrong += 1
            scores.spanish.wrong += is_spanish
            differ(f"invented vote: {vote['raw_text'][:160]}")
    for label, vote in ((labels[i], votes[j]) for i, j in pairs.items()):
        if label.get("optional"):
            continue
        scores.votes.right += 1
        scores.spanish.right += is_spanish
        before = len(scores.differences)
        _compare(scores, label, vote, differ)
        if len(scores.differences) > before:
            differ(f"  in: {vote['raw_text'][:300]}")
        scores.motions.right += bool(vote.get("motion"))
        scores.motions.missing += not vote.get("motion")
    _compare_people(scores, page["persons"], [person["text"] for person in found["persons"]], differ)


def _compare(scores: Scores, label: dict[str, Any], vote: dict[str, Any], differ: Any) -> None:
    stated = vote["result"] or None
    expected = label["result"] or None
    scores.results.add(expected, stated, equal=stated in (expected or ()))
    if stated not in (expected or (None,)):
        differ(f"result {stated}, expected {expected}")
    for key, found in (("mover", vote["motion_by"]), ("seconder", vote["seconded_by"])):
        scores.movers.add(label[key], found, equal=same_name(label[key], found))
        if not same_name(label[key], found):
            differ(f"{key} {found}, expected {label[key]}")
    for key in TALLY:
        known, counted = label["tally"].get(key), vote["tally"].get(key)
        scores.tally.add(known, counted, equal=known == counted)
        if known != counted:
            differ(f"{key} {counted}, expected {known}")
    ballots = {ballot["name"]: ballot["vote"] for ballot in vote["individual_votes"]}
    unmatched = dict(ballots)
    for name, kind in label["roll"].items():
        match = next((other for other in unmatched if same_name(name, other)), None)
        if match is None or unmatched[match] != kind:
            scores.roll.missing += 1
            differ(f"ballot {name}: {kind} not found")
        else:
            scores.roll.right += 1
            del unmatched[match]
    scores.roll.wrong += len(unmatched)
    if unmatched:
        differ(f"invented ballots {unmatched}")


def _compare_people(scores: Scores, labelled: str, found: Sequence[str], differ: Any) -> None:
    expected = {fold(name.replace("_", " ")) for name in labelled.split()}
    names = {fold(name) for name in found}
    scores.people.right += len(expected & names)
    scores.people.wrong += len(names - expected)
    scores.people.missing += len(expected - names)
    if expected != names:
        differ(f"people missed {sorted(expected - names)}, invented {sorted(names - expected)}")


def align(labels: Sequence[dict[str, Any]], votes: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Pair labels with votes in the order of the page, so that the pairs agree as much as possible."""
    best: list[list[tuple[float, tuple[int, ...]]]] = [[(0.0, ())] * (len(votes) + 1) for _ in range(len(labels) + 1)]
    for i, label in enumerate(labels):
        for j, vote in enumerate(votes):
            score, path = best[i][j]
            options: list[tuple[float, tuple[int, ...]]] = [best[i][j + 1], best[i + 1][j]]
            if (agreement := _agreement(label, vote)) > 0:
                options.append((score + agreement, (*path, i * len(votes) + j)))
            best[i + 1][j + 1] = max(options, key=lambda option: option[0])
    return {code // len(votes): code % len(votes) for code in best[-1][-1][1]} if votes else {}


def _agreement(label: dict[str, Any], vote: dict[str, Any]) -> float:
    score = 1.0
    for key, found in (("mover", vote["motion_by"]), ("seconder", vote["seconded_by"])):
        if label[key] and found:
            score += 1 if same_name(label[key], found) else -0.5
    for key in ("ayes", "nays"):
        known, counted = label["tally"].get(key), vote["tally"].get(key)
        if known is not None and counted is not None:
            score += 0.5 if known == counted else -0.25
    if vote["result"]:
        score += 0.5 if vote["result"] in (label["result"] or ()) else -0.25
    return score


def same_name(one: str | None, other: str | None) -> bool:
    """Whether two names are the same person on a page: equal, or the shorter one ends the longer one."""
    if one is None or other is None:
        return one is other
    short, long = sorted((fold(one).split(), fold(other).split()), key=len)
    return bool(short) and long[-len(short) :] == short


def fold(name: str) -> str:
    """Return a name in lower case, without accents, dots and commas."""
    plain = "".join(char for char in unicodedata.normalize("NFD", name) if not unicodedata.combining(char))
    return " ".join(plain.lower().replace("\u2019", "'").replace(".", " ").replace(",", " ").split())


def summarize(scores: Scores) -> Iterable[tuple[str, float, float, str]]:
    """Return (figure, value, bar, counts) for each figure of issue 15."""
    stated = scores.results
    yield "votes found, F1", scores.votes.f1, 0.95, _counts(scores.votes)
    yield "result right, of those stated", stated.precision, 0.99, _counts(stated)
    yield "mover and seconder, F1", scores.movers.f1, 0.97, _counts(scores.movers)
    yield "tally, F1", scores.tally.f1, 0.95, _counts(scores.tally)
    yield "individual votes, recall", scores.roll.recall, 0.90, _counts(scores.roll)
    yield "people, F1", scores.people.f1, 0.90, _counts(scores.people)
    if scores.spanish.right + scores.spanish.missing:
        yield "Spanish votes, recall", scores.spanish.recall, 0.80, _counts(scores.spanish)


def _counts(count: Count) -> str:
    return f"{count.right} right, {count.wrong} wrong, {count.missing} missing"
