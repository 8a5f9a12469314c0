"""Compiles a search request to a query of the search index (tantivy)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from tantivy import FieldType, Occur, Query, Schema

from clerk.archive.query_nodes import And, Near, Node, Or, Term
from clerk.archive.search import SearchRequest

_MAX_DATE = 99_991_231


def compile_request(schema: Schema, request: SearchRequest, sites: Iterable[str] | None) -> Query:
    """`sites`: search only these; None: all."""
    filters = []
    if sites is not None:
        filters.append(Query.term_set_query(schema, "site", list(sites)))
    if request.since is not None:
        filters.append(_from_day(schema, "date", request.since))
    if request.added_since is not None:
        filters.append(_from_day(schema, "added", request.added_since))
    if request.body:
        filters.append(Query.term_query(schema, "body", request.body))
    if request.kind:
        filters.append(Query.term_query(schema, "kind", request.kind))
    if request.year:
        filters.append(Query.term_query(schema, "year", int(request.year)))
    matches = _compile(schema, request.query.root)
    # A filter must not change the order by relevance.
    return Query.boolean_query(
        [(Occur.Must, matches), *((Occur.Must, Query.const_score_query(each, 0.0)) for each in filters)]
    )


def _from_day(schema: Schema, name: str, day: date) -> Query:
    first = int(day.strftime("%Y%m%d"))
    return Query.range_query(schema, name, FieldType.Integer, first, _MAX_DATE)


def _compile(schema: Schema, node: Node) -> Query:
    if isinstance(node, Term):
        if node.is_prefix:
            patterns = [re.escape(words[0]) + ".*" for words in node.alternatives(node.column)]
            return _any([Query.regex_query(schema, node.column, pattern) for pattern in patterns])
        return _any([_phrase(schema, node.column, words) for words in node.alternatives(node.column)])
    if isinstance(node, Near):
        # The slop of a phrase allows the words in the given order only, up to the distance.
        orders = [order for (first,), (second,) in node.alternatives() for order in _both_orders(first, second)]
        return _any([Query.phrase_query(schema, node.column, order, node.distance) for order in orders])
    if isinstance(node, Or):
        return _any([_compile(schema, child) for child in node.nodes])
    assert isinstance(node, And)
    return Query.boolean_query(
        [(Occur.Must, _compile(schema, child)) for child in node.required]
        + [(Occur.MustNot, _compile(schema, child)) for child in node.excluded]
    )


def _both_orders(first: str, second: str) -> list[list[str | tuple[int, str]]]:
    return [[first, second], [second, first]]


def _phrase(schema: Schema, column: str, words: Sequence[str]) -> Query:
    if len(words) == 1:
        return Query.term_query(schema, column, words[0], "freq")
    return Query.phrase_query(schema, column, list(words))


def _any(queries: Sequence[Query]) -> Query:
    if len(queries) == 1:
        return queries[0]
    return Query.boolean_query([(Occur.Should, each) for each in queries])
