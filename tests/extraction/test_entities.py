"""People, organisations and places, and the precision behind their confidence."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clerk.extraction.rules import Rules
from clerk.extraction.schema import validate

PAGE = """CITY OF MILLBROOK
Regular Meeting of the City Council
PRESENT: Mayor Ellen Ortiz, Vice Mayor Sam Okafor, Council Members Dana Whitfield, Li Wei Chen
and Robert "Bob" Marsh
ABSENT: Council Member Teresa O'Neill
Also present: Grace Lindqvist, City Manager; Paul de la Cruz Jr., City Attorney

The Planning Commission and the Parks and Recreation Board met at 12 Elm Street. Mr. Harold Pinter of Harbor Freight
Supply, Inc. spoke about the bridge on Old Mill Road. The City of Millbrook and Grant County will share the cost. The
Department of Public Works asked Rivera Engineering LLC of Springfield, Ohio for a bid. Dana Whitfield thanked the
Friends of the Library. Commissioner Hall abstained. Rain fell on Tuesday. Board of Trustees members were invited.
"""
EXPECTED = {
    "persons": {
        "Ellen Ortiz", "Sam Okafor", "Dana Whitfield", "Li Wei Chen", "Robert Marsh", "Teresa O'Neill",
        "Grace Lindqvist", "Paul de la Cruz Jr.", "Harold Pinter", "Hall",
    },
    "orgs": {
        "City Council", "Planning Commission", "Parks and Recreation Board", "Harbor Freight Supply Inc.",
        "Department of Public Works", "Rivera Engineering LLC", "Friends of the Library", "Board of Trustees",
    },
    "locations": {"12 Elm Street", "Old Mill Road", "City of Millbrook", "Grant County", "Springfield, Ohio"},
}  # fmt: skip


def extract(*pages: str) -> list[dict[str, dict[str, tuple[float, str | None]]]]:
    """Return {kind: {text: (confidence, role)}} for each page."""
    numbered = list(enumerate(pages, 1))
    result = Rules().extract(numbered)
    validate("rules", result, [number for number, _ in numbered])
    return [
        {
            kind: {entry["text"]: (entry["confidence"], entry.get("role")) for entry in result[number][kind]}
            for kind in EXPECTED
        }
        for number, _ in numbered
    ]


@pytest.mark.parametrize("kind", EXPECTED)
def test_findings_on_a_page(kind: str) -> None:
    (page,) = extract(PAGE)
    assert set(page[kind]) == EXPECTED[kind]


def test_people_have_their_roles() -> None:
    (page,) = extract(PAGE)
    roles = {name: role for name, (_, role) in page["persons"].items()}
    assert roles["Ellen Ortiz"] == "Mayor"
    assert roles["Sam Okafor"] == "Vice Mayor"
    assert roles["Li Wei Chen"] == "Council Member"
    assert roles["Grace Lindqvist"] == "City Manager"
    assert roles["Harold Pinter"] is None


def test_courtesy_titles_are_not_roles() -> None:
    (page,) = extract("Miss Reyes and Miss Ada Stone spoke.")
    assert page["persons"] == {"Reyes": (0.7, None), "Ada Stone": (0.7, None)}


def test_more_evidence_means_more_confidence() -> None:
    (page,) = extract(
        "Mayor Ellen Ortiz spoke.\nCommissioner Vance spoke.\nMs. Reyes spoke.\n"
        "Moved by Trustee Gray, seconded by Trustee Lund. Carried.\nPresent: Abbott, Byrne\n"
    )
    confidence = {name: number for name, (number, _) in page["persons"].items()}
    assert (
        confidence["Ellen Ortiz"]
        > confidence["Gray"]
        > confidence["Vance"]
        > confidence["Abbott"]
        > confidence["Reyes"]
    )


def test_a_name_known_from_one_page_is_found_on_another_with_less_confidence() -> None:
    first, second = extract(
        "Mayor Ellen Ortiz spoke.", "A letter by Ellen Ortiz was read. A letter by Xqir Doe was read."
    )
    assert second["persons"] == {"Ellen Ortiz": (0.9, "Mayor")}
    assert first["persons"] == {"Ellen Ortiz": (0.95, "Mayor")}


SENTENCES = [
    ("Mayor Ellen Ortiz opened the meeting.", {"Ellen Ortiz"}),
    ("Commissioner Van Dine thanked Police Chief Amos Reed.", {"Van Dine", "Amos Reed"}),
    ("The Mayor and Council Members attended the Veterans Day Parade.", set()),
    ("Supervisor Tam motioned, and Supervisor Miley seconded, to approve. Motion carried.", {"Tam", "Miley"}),
    ("Chair North called the roll. Director of Public Works reported.", {"North"}),
    ("Trustees Boyd, Hall, and McDonald met. Board of Trustees Policy 7 was read.", {"Boyd", "Hall", "McDonald"}),
    ("Dr. Anita Rao and Mrs. Lund spoke. Dr. Martin Luther King Jr. Boulevard will close.", {"Anita Rao", "Lund"}),
    ("Ayes: Ruiz, Ng, Frost. Noes: None. Moved by Member Ruiz, seconded by Member Ng.", {"Ruiz", "Ng", "Frost"}),
    ("Joan Bell, City Clerk, read the title. Planning Director Report was received.", {"Joan Bell"}),
    ("Superintendent Lee Brandt and Treasurer Omar Haddad presented the audit.", {"Lee Brandt", "Omar Haddad"}),
    ("City Manager Recommendation: approve. Commissioner Comments: none.", set()),
    ("Alderman D. J. Fox, Jr. asked about Fire Chief vacancies.", {"D. J. Fox Jr."}),
]  # fmt: skip


def test_confidence_is_close_to_precision() -> None:
    """On sentences with misleading words, the precision of each confidence is at most 0.1 below it."""
    right: dict[float, list[bool]] = defaultdict(list)
    missed = 0
    for sentence, names in SENTENCES:
        (page,) = extract(sentence)
        for name, (confidence, _) in page["persons"].items():
            right[confidence].append(name in names)
        missed += len(names - set(page["persons"]))
    for confidence, hits in right.items():
        if len(hits) >= 4:
            assert sum(hits) / len(hits) >= confidence - 0.1, (confidence, hits)
    hits = [hit for level in right.values() for hit in level]
    assert sum(hits) / len(hits) >= 0.85
    assert missed / sum(len(names) for _, names in SENTENCES) <= 0.15


HOSTILE = {
    "one letter": "A" * 300_000,
    "capitals": "Aa " * 100_000,
    "spaces": " " * 300_000 + "x",
    "lines": "\n \n" * 100_000,
    "hyphens": "a-\n" * 100_000,
    "moved by": "moved by " * 40_000,
    "movers": "Mayor Ann Lee moved seconded by " * 9_000,
    "rolls": "Ayes: Ann Lee, Bo Day, " * 12_000,
    "labels": "Aye: 5 - Nay: 3 - " * 16_000,
    "ballots": "Lee-aye, " * 30_000,
    "told": "Commissioners " * 20_000 + "voting aye " * 9_000,
    "organisations": "Parks and " * 30_000 + "Board",
    "addresses": "1 Aa Aa Aa Aa " * 20_000,
    "places": "City of Aa Aa Aa, " * 15_000,
    "results": "motion a a a " * 20_000,
    "numbers": "carried " + "1-" * 150_000,
    "quotes": '"' * 300_000,
    "initials": "A. " * 100_000,
    "particles": "de la " * 50_000,
    "nothing but marks": ",;:()[]{}|" * 30_000,
    "combining": "e\u0301" * 150_000,
    "motions": "motion to " * 30_000,
    "voters": "voted yes, " * 27_000,
    "groups": "Lee and " * 40_000 + "voting aye",
    "tables": "Yes No Abstain\nLee X\n" * 13_000,
    "columns of names": "AYES   NAYS\nLee  None\n" * 13_000,
    "pairs": "M/S/C (Hollis/Abara) " * 14_000,
    "titles": "Assistant Deputy Director of " * 10_000,
    "dispositions": "(Y-5) " * 50_000,
    "outcomes": "the motion said that the resolution was adopted " * 6_000,
    "votos": "votos a favor del Grupo (6) y " * 10_000,
    "unanimidad": "se aprueba por unanimidad " * 11_000,
    "unusual": "\U0001d400\u202e\ufeff\u2028\x85" * 50_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_needs_linear_time(name: str) -> None:
    """Measures CPU time, which does not depend on the load. A quadratic pattern would take minutes."""
    started = time.process_time()
    result = Rules().extract([(1, HOSTILE[name]), (2, HOSTILE[name][:1000])])
    assert time.process_time() - started < 8
    validate("rules", result, [1, 2])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.sampled_from(
                ["Mayor", "Ann", "Lee", "moved", "seconded", "by", "Ayes:", "Nays:", "None", "-", "5", "5-0", "Inc.",
                 ",", "Board", "of", "Council", "Member", "Dr.", "(", ")", '"', "voting", "aye", "carried", "Jr.", "\n"]
            ),
        ),
        max_size=40,
    )
)  # fmt: skip
def test_output_is_valid_for_any_text(words: list[str]) -> None:
    text = " ".join(words)
    validate("rules", Rules().extract([(1, text), (7, text[::-1])]), [1, 7])
