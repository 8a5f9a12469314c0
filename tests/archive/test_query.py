"""The query language: parsing, and matching one page."""

from __future__ import annotations

import pytest

from clerk.archive.query import ArchiveForm, InvalidQuery, parse
from clerk.archive.terms import PageTerms

PAGE = "The ordi-\nnance on tree cutting costs $320,000.00 (No. 2017-88). Señora López-\nGarcía voted."
SPANISH = "Se aprueba la ordenanza sobre la tala de árboles en las calles, por unanimidad."


@pytest.mark.parametrize(
    "query",
    [
        "ordinance", "ORDINANCES", "tree cut", '"tree cutting"', "cutt*", '"tree cutt*"', "320000", "$320,000",
        "320.000", "88-2017", "2017/88", "2017-88", '"No. 88-2017"', "senora", "lopez garcia", "tree OR school",
        "tree AND cutting", "tree NOT school", "tree -school", "tree AND NOT school", "NEAR(ordinance cutting, 2)",
        "NEAR(cutting ordinance, 2)", 'NEAR("tree cutting" ordinance, 1)', "(school OR tree) costs", "tree & cutting",
        '-"cutting tree" tree', "nance", "tree (cutting, 320000)", "“tree cutting”", "#2017", "voting!",
    ],
)  # fmt: skip
def test_a_page_matches(query: str) -> None:
    assert parse(query).matches(PAGE)


@pytest.mark.parametrize(
    "query",
    [
        "school", '"trees cutting"', '"cutting tree"', "cuttingzz*", "320", "tree -cutting",
        "tree NOT (cutting school OR costs)", "NEAR(ordinance cutting, 1)", "NEAR(tree school)", "88-17", "lopezgarcia",
        '"tree cut"', "2017-88 school",
    ],
)  # fmt: skip
def test_a_page_does_not_match(query: str) -> None:
    assert not parse(query).matches(PAGE)


@pytest.mark.parametrize("query", ["ordenanzas", "aprobar OR aprueban", "árbol", "arbol calle", '"tala de arboles"'])
def test_spanish_pages_have_spanish_stems(query: str) -> None:
    assert PageTerms.of(SPANISH).language == "spanish"
    assert parse(query).matches(SPANISH)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "no word"), ("  § … ", "no word"), ("()", "no word"), ('""', "no word"), ("*", "elsewhere"),
        ("*x", "elsewhere"), ("x*y", "elsewhere"), ('"tree', "not closed"), ("(tree", "not closed"),
        ("tree)", "closes nothing"), ("-tree", "only excludes"), ("NOT tree", "only excludes"),
        ("tree OR -hedge", "only excludes"), ("tree AND", "AND has nothing after"), ("AND tree", "nothing before"),
        ("tree OR", "OR has nothing"), ("tree NOT", "NOT has nothing after"), ("tree - hedge", "stands alone"),
        ("tree XOR hedge", "unknown operator"), ("tree NEAR hedge", "unknown operator"), ("a NEAR/5 b", "unknown"),
        ("site:town tree", "site: is an unknown operator"), ("tree || hedge", "unknown"), ("+tree", "unknown"),
        ("tree~2", "unknown"), ("wom?n", "unknown"), ("!tree", "unknown"), ("NEAR(tree)", "NEAR has 1"),
        ("NEAR(tree hedge, 5000)", "distance 5000"), ("NEAR(tree OR hedge, 5)", "not possible inside NEAR"),
        ("x " * 60, "too many words"), ("(" * 30 + "x" + ")" * 30, "nested"), ("x" * 1001, "1,001 characters"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_reported(query: str, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message.replace("(", r"\(")):
        parse(query)


def test_highlight_and_snippet() -> None:
    assert parse("ordinances").highlight("An ordi-\nnance.") == "An \x02ordi-\nnance\x03."
    assert parse("cafe -tea").highlight("The Café and the cafe: tea.") == "The \x02Café\x03 and the \x02cafe\x03: tea."
    assert parse('"bike lanes"').highlight("bike and bike lanes \x02") == "bike and \x02bike lanes\x03  "
    assert parse("320000").highlight("costs $320,000.00.") == "costs $\x02320,000.00\x03."
    words = " ".join(f"word{n}" for n in range(100))
    snippet = parse("bike lane").snippet(f"bike {words} bike lanes {words}")
    assert "\x02bike\x03 \x02lanes\x03" in snippet
    assert snippet.startswith("… word96 ")
    assert snippet.endswith(" …")
    assert parse("nothing").snippet("") == ""


def test_the_text_form_looks_for_other_forms_of_numbers() -> None:
    assert parse("320000").as_fts(ArchiveForm.TEXT) == '("320000" OR "320 000")'
    assert parse("2017-88").as_fts() == '({stems} : ("2017 88" OR "88 2017"))'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("co-\r\n  operate", "cooperate co operate"), ("ORDI-\nNANCE", "ordinance ordi nance"), ("e-mail", "e mail"),
        ("López-\nGarcía", "lopez garcia"), ("2017-\n88", "2017 88"), ("soft\u00adhyphen", "softhyphen"),
        ("1,234,567.89", "1234567 89"), ("1.234.567,00 €", "1234567"), ("12,34", "12 34"), ("3.5", "3 5"),
        ("5.00", "5"), ("ﬁnance", "finance"), ("道路 会議", "道路 会議"), ("12,3456", "12 3456"), ("a_b", "a b"),
    ],
)  # fmt: skip
def test_words_of_a_text(text: str, words: str) -> None:
    assert " ".join(PageTerms.of(text).words) == words
