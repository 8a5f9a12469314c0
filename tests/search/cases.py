"""Search cases with the pages that each must find, for every surface. Pages are named SITE/PAGE."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from clerk.archive.query import ArchiveForm
from tests.archive.published import publish

_ALPHA: list[dict[str, object]] = [
    {"page": 1, "text": "The ordi-\nnance on tree cutting costs $320,000.00 for the city.", "date": "2017-05-02"},
    {"page": 2, "text": "Trees were cut on Main Street near the school.", "date": "2018-06-05"},
    {"page": 3, "text": "Ordinance No. 2017-88 was adopted by the council.", "date": "2018-01-09", "kind": "agenda"},
    {"page": 4, "text": "Resolution 88-2017, bike lanes, tabled.", "date": "2019-02-12", "meeting": "Planning Board"},
    {"page": 5, "text": "Bicycles and biking: the bike lanes budget is 320000 dollars.", "date": "2020-03-03"},
]  # fmt: skip
_BETA: list[dict[str, object]] = [
    {"page": 6, "text": "Se aprueba la ordenanza de la comisión sobre los árboles en el parque.", "date": "2021-04-06"},
    {"page": 7, "text": "La reunión de las comisiones fue en la escuela; el niño habló.", "date": "2022-05-03"},
    {"page": 8, "text": "The hedge in the park. The commission will decide about the tree.", "date": "2023-06-06"},
    {
        "page": 9,
        "text": "The voters voted: a vote on the hedge between school and park.",
        "date": "2024-07-02",
        "source_url": "https://beta.example/9.pdf",
        "added_at": "2024-07-09T10:00:00Z",
    },
]


def publish_sites(root: Path, form: ArchiveForm = ArchiveForm.TERMS) -> None:
    publish(root, "alpha", *_ALPHA, form=form)
    publish(root, "beta", *_BETA, form=form)


@dataclass(frozen=True)
class Case:
    query: str
    found: str
    """In any order, unless `filters` has a sort."""
    filters: dict[str, str] = field(default_factory=dict)
    older_form: str | None = None
    """What an archive without search terms finds, if that is less."""


CASES = [
    Case("ordinance", "alpha/1 alpha/3", older_form="alpha/3"),  # hyphenated at the end of a line
    Case("tree cutting", "alpha/1 alpha/2", older_form="alpha/1"),  # several words, stems
    Case('"tree cutting"', "alpha/1"),  # a phrase as written
    Case("comision", "beta/6 beta/7", older_form="beta/6"),  # accents, Spanish stems
    Case("árbol", "beta/6", older_form=""),
    Case("NIÑO", "beta/7"),
    Case("2017-88", "alpha/3 alpha/4"),  # a number with its year first or last
    Case("88-2017", "alpha/3 alpha/4"),
    Case("$320,000", "alpha/1 alpha/5"),
    Case("320000", "alpha/1 alpha/5"),
    Case("hedge AND school", "beta/9"),
    Case("hedge OR bicycles", "alpha/5 beta/8 beta/9"),
    Case("tree NOT school", "alpha/1 beta/8"),
    Case("school -hedge", "alpha/2"),
    Case("hedge -voted", "beta/8"),
    Case("bik*", "alpha/4 alpha/5"),
    Case('"bike lan*"', "alpha/4 alpha/5"),
    Case("NEAR(hedge park, 2)", "beta/8"),
    Case('NEAR("bike lanes" budget, 0)', "alpha/5"),
    Case("(bike OR hedge) (budget OR decide)", "alpha/5 beta/8"),
    Case("vote", "beta/9"),
    Case("bike lanes", "alpha/4", {"body": "Planning Board"}),
    Case("school", "beta/9", {"year": "2024"}),
    Case("ordinance", "alpha/3", {"kind": "agenda"}),
    Case("ordinance", "alpha/1", {"kind": "minutes"}, older_form=""),
    Case("ordinance", "", {"kind": "packet"}),
    Case("tree", "alpha/1 alpha/2", {"site": "alpha"}, older_form="alpha/1"),
    Case("hedge", "beta/9", {"since": "2024-01-01"}),
    Case("hedge", "beta/9", {"added_since": "2024-07-09"}, older_form=""),
    Case("tree", "beta/8 alpha/2 alpha/1", {"sort": "date"}, older_form="beta/8 alpha/1"),
]
INVALID = ["tree XOR hedge", "site:alpha tree", '"tree', "tree AND", "-tree", "NEAR(tree)", "tr*e"]
