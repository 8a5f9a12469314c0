"""Parser of search queries. Whatever it does not understand is an InvalidQuery: nothing is ignored silently."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace

from clerk.archive.query_nodes import And, Near, Node, Or, Term
from clerk.archive.terms import tokenize
from clerk.errors import EXIT_USAGE, ClerkError

MAX_LENGTH = 1000
_MAX_TERMS = 50
_MAX_DEPTH = 20
_MAX_DISTANCE = 1000
_DEFAULT_DISTANCE = 10
_LEXEME = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<open>\()
  | (?P<close>\))
  | (?P<comma>,(?=\s*\d+\s*\)))
  | (?P<minus>-(?=["(\w]))
  | (?P<quoted>"(?P<phrase>[^"]*)"(?P<star>\*)?)
  | (?P<unclosed>")
  | (?P<near>NEAR\s*\()
  | (?P<word>(?:(?!,\s*\d+\s*\))[^\s()"])+)
    """,
    re.VERBOSE,
)
_OPERATORS = {"AND", "OR", "NOT"}
_FOREIGN_WORDS = re.compile(r"XOR|NOR|NAND|ANDNOT|ADJ\d*|NEAR\d*|ONEAR|WITHIN\d*|(?:NEAR|N|W|PRE|WITHIN)/\d+")
_FOREIGN_SIGNS = re.compile(r"&&|[|~^?\\{}]|^[+!=<>]")
_FIELD = re.compile(r"([^\W\d_][\w.-]*):(?=\S)")
_JOINED_NUMBERS = re.compile(r"[-/\u2010-\u2013]")


class InvalidQuery(ClerkError):
    """The search query cannot be understood."""

    code = "InvalidQuery"
    exit_code = EXIT_USAGE


@dataclass(frozen=True)
class _Lexeme:
    kind: str
    text: str
    is_prefix: bool = False


def parse(text: str) -> Node:
    return _Parser(_lex(text)).parse()


def _lex(text: str) -> list[_Lexeme]:
    if len(text) > MAX_LENGTH:
        raise InvalidQuery(f"the query has {len(text):,} characters", f"at most {MAX_LENGTH:,} are possible")
    text = re.sub("[\u201c\u201d\u201e\u00ab\u00bb]", '"', text.replace("\0", " "))
    lexemes: list[_Lexeme] = []
    previous = "space"
    for match in _LEXEME.finditer(text):
        kind = match.lastgroup or ""
        kind = "quoted" if match["quoted"] is not None else kind
        if kind == "unclosed":
            raise InvalidQuery("a double quote is not closed", "put one before and one after the phrase")
        if kind == "minus" and previous not in ("space", "open", "minus", "near"):
            raise InvalidQuery(f"{match[0]} follows a phrase or bracket directly", "put a space before it")
        if kind == "quoted":
            lexemes.append(_Lexeme(kind, match["phrase"], bool(match["star"])))
        elif kind == "word":
            lexemes += _lex_word(match[0])
        elif kind != "space":
            lexemes.append(_Lexeme(kind, match[0]))
        previous = kind
    return lexemes


def _lex_word(text: str) -> list[_Lexeme]:
    if text in _OPERATORS:
        return [_Lexeme(text, text)]
    if text == "&":  # "Parks & Recreation": all words must match anyway
        return []
    if text == "-":
        raise InvalidQuery("- stands alone", "write it directly before the word to exclude: budget -school")
    if field := _FIELD.match(text):
        raise InvalidQuery(
            f"{field[0]} is an unknown operator",
            f'put "{text}" in double quotes to search for it; sites, bodies and dates are filters beside the query',
        )
    is_foreign = _FOREIGN_WORDS.fullmatch(text) is not None
    if is_foreign or _FOREIGN_SIGNS.search(text):
        raise InvalidQuery(
            f"{text} {'is' if is_foreign else 'contains'} an unknown operator",
            'there are AND, OR, NOT, -word, "a phrase", prefix*, NEAR(a b, 5) and brackets;'
            " put text in double quotes to search for it",
        )
    stripped = text.rstrip(".,;:!'\u2019")
    is_prefix = stripped.endswith("*")
    word = stripped[:-1] if is_prefix else stripped
    if "*" in word or (is_prefix and not word):
        raise InvalidQuery(f"{text} has * elsewhere than at its end", "write the beginning of a word before it: bik*")
    return [_Lexeme("word", word, is_prefix)]


class _Parser:
    """Recursive descent. NOT binds more tightly than AND, and AND more tightly than OR, as in FTS5."""

    def __init__(self, lexemes: list[_Lexeme]) -> None:
        self._lexemes = lexemes
        self._at = 0
        self._terms = 0

    def parse(self) -> Node:
        node = self._or(0)
        if self._at < len(self._lexemes):
            raise InvalidQuery(") closes nothing", "brackets come in pairs, as in (tree OR hedge) budget")
        return node

    def _peek(self) -> str:
        return self._lexemes[self._at].kind if self._at < len(self._lexemes) else ""

    def _next(self) -> _Lexeme:
        self._at += 1
        return self._lexemes[self._at - 1]

    def _or(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise InvalidQuery("the query has too many nested brackets", f"at most {_MAX_DEPTH} are possible")
        nodes = [self._and(depth)]
        while self._peek() == "OR":
            self._next()
            nodes.append(self._and(depth))
        return nodes[0] if len(nodes) == 1 else Or(tuple(nodes))

    def _and(self, depth: int) -> Node:
        required: list[Node] = []
        excluded: list[Node] = []
        operator = ""
        while (kind := self._peek()) not in ("", "close", "OR"):
            if kind == "comma":  # of `(budget, 2024)`; only NEAR gives it a meaning
                self._next()
                continue
            if kind == "AND":
                self._next()
                if not (required or excluded) or operator:
                    raise InvalidQuery("AND has nothing before it", "write it between two words: tree AND budget")
                operator = "AND"
                continue
            is_excluded = kind in ("NOT", "minus")
            if is_excluded:
                operator = self._next().text
            node = self._primary(depth, operator)
            if node is not None:
                (excluded if is_excluded else required).append(node)
                operator = ""
            elif is_excluded:
                operator = ""
        if operator:
            raise InvalidQuery(f"{operator} has nothing after it", f"write a word after it: tree {operator} budget")
        if not required:
            raise self._nothing_required(excluded)
        return required[0] if len(required) == 1 and not excluded else And(tuple(required), tuple(excluded))

    def _nothing_required(self, excluded: list[Node]) -> InvalidQuery:
        if excluded:
            return InvalidQuery("the query only excludes words", "add a word that the pages must contain")
        if self._peek() == "OR" or (self._at and self._lexemes[self._at - 1].kind == "OR"):
            return InvalidQuery("OR has nothing on one side", "write it between two words: tree OR hedge")
        return InvalidQuery("there is no word to search for", "write a word with letters or digits")

    def _primary(self, depth: int, operator: str) -> Node | None:
        """None for a lexeme without letters and digits, which cannot be on a page: `§`."""
        kind = self._peek()
        if kind == "open":
            self._next()
            node = self._or(depth + 1)
            self._close()
            return node
        if kind == "near":
            self._next()
            return self._near()
        if kind in ("word", "quoted"):
            return self._term(self._next())
        raise InvalidQuery(f"{operator} has nothing after it", f"write a word after it: tree {operator} budget")

    def _close(self) -> None:
        if self._peek() != "close":
            raise InvalidQuery("a bracket is not closed", "brackets come in pairs, as in (tree OR hedge) budget")
        self._next()

    def _near(self) -> Node:
        terms: list[Term] = []
        while self._peek() in ("word", "quoted"):
            term = self._term(self._next())
            if term is not None:
                terms.append(term)
        distance = _DEFAULT_DISTANCE
        if self._peek() == "comma":
            self._next()
            distance = int(self._next().text)
        if self._peek() not in ("close", ""):
            raise InvalidQuery(
                f"{self._next().text} is not possible inside NEAR", "it takes words and phrases: NEAR(tree cutting, 5)"
            )
        self._close()
        if len(terms) < 2 or distance > _MAX_DISTANCE:
            raise InvalidQuery(
                f"NEAR has {len(terms)} words and the distance {distance}",
                f"it takes two or more words and a distance up to {_MAX_DISTANCE}: NEAR(tree cutting, 5)",
            )
        return Near(tuple(terms), distance)

    def _term(self, lexeme: _Lexeme) -> Term | None:
        self._terms += 1
        if self._terms > _MAX_TERMS:
            raise InvalidQuery("the query has too many words", f"at most {_MAX_TERMS} are possible")
        tokens = tokenize(lexeme.text)
        if not tokens:
            if lexeme.is_prefix:
                raise InvalidQuery(f"{lexeme.text}* is not the beginning of a word", "write letters or digits before *")
            return None
        pairs = tuple(
            number
            for number, (first, second) in enumerate(itertools.pairwise(tokens))
            if _JOINED_NUMBERS.fullmatch(lexeme.text, first.end, second.start)
        )
        term = Term(lexeme.text, tuple(token.text for token in tokens), pairs, lexeme.kind == "quoted")
        return replace(term, is_prefix=lexeme.is_prefix or (term.is_quoted and lexeme.text.rstrip().endswith("*")))
