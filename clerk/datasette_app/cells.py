"""How `clerk serve` shows the cells of its tables: short, with a link to the page that has the whole content."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from clerk.archive.hits import page_path
from clerk.archive.pages import PAGE_TABLES, TABLES
from clerk.archive.query import Query
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.search_pages import mark
from clerk.datasette_app.site_pages import path_of_image, path_of_meeting

TRUNCATE_AFTER = 280
"""Characters of a text in a table."""
_SHORT_TEXT = 80
"""Characters of a vote's text, which has a narrow column."""
_LINKED_COLUMNS = {
    ("votes", "number"): ("votes", "id"),
    ("votes", "motion"): ("votes", "id"),
    ("votes", "motion_by"): ("people", "motion_by_id"),
    ("votes", "seconded_by"): ("people", "seconded_by_id"),
    ("vote_rolls", "vote"): ("votes", "vote_id"),
    ("vote_rolls", "name"): ("people", "person_id"),
    ("people", "name"): ("people", "id"),
}
"""Column → the kind of page that it links to, and the column with the id. Datasette links the ids to its own rows."""
_FINDINGS = {"entities_json": ("persons", "orgs", "locations"), "votes_json": ("votes",)}
_NAMES = {
    "persons": ("person", "people"),
    "orgs": ("organisation", "organisations"),
    "locations": ("place", "places"),
    "votes": ("vote", "votes"),
}

table_query: ContextVar[Query | bool] = ContextVar("table_query", default=False)
"""In a request for a table: its search, or True if there is none. The page of one row shows the whole content."""


def render(row: Any, value: Any, column: str, table: str, database: str, datasette: ArchiveDatasette) -> Markup | None:
    """The cell as HTML; None: as Datasette shows it."""
    values = {name: _plain(row[name]) for name in row.keys()}  # noqa: SIM118 (iterating a sqlite3.Row gives its values)
    if (linked := _LINKED_COLUMNS.get((table, column))) and value is not None:
        kind, id_column = linked
        if isinstance(key := values.get(id_column), str):
            return _link(datasette.urls.path(f"/-/{kind}/{quote(database, safe='')}/{quote(key, safe='')}"), value)
    if (table, column) == ("votes", "result") and values.get("contradictory"):
        return Markup("contradictory, the page says {}").format(value or "nothing")
    if column == "meeting" and isinstance(value, str) and isinstance(day := values.get("date"), str):
        return _link(path_of_meeting(datasette, database, day, value), value)
    path = _page_path(values, table, database, datasette)
    if column == "page" and path is not None:
        return _link(path, value)
    if column == "page_image" and isinstance(value, str) and datasette.has_image(database, value):
        return _link(path_of_image(datasette, database, value), value)
    if table_query.get() is False or not isinstance(value, str):
        return None
    if column in _FINDINGS:
        return _summarize(value, column)
    if column == "text" and path is not None:
        return _extract(value, path)
    if (table, column) == ("votes", "raw_text") and isinstance(values.get("id"), str) and len(value) > _SHORT_TEXT:
        whole = datasette.urls.path(f"/-/votes/{quote(database, safe='')}/{quote(values['id'], safe='')}")
        return Markup('{}… <a class="clerk-whole" href="{}">whole text</a>').format(value[:_SHORT_TEXT], whole)
    return None


def _plain(value: Any) -> Any:
    """Datasette replaces the value of a foreign key with the value and its label."""
    return value["value"] if isinstance(value, dict) else value


def _page_path(values: dict[str, Any], table: str, database: str, datasette: ArchiveDatasette) -> str | None:
    """The page of a row that has one: of a table of pages, or of a vote."""
    if table not in (*PAGE_TABLES, "votes"):
        return None
    kinds = [kind for kind in TABLES if TABLES[kind] == table]
    kind = values.get("kind") or kinds[0]
    place = (values.get("date"), values.get("meeting"))
    if not all(isinstance(part, str) for part in place) or not isinstance(values.get("page"), int):
        return None
    return str(datasette.urls.path(page_path(database, str(kind), str(place[0]), str(place[1]), values["page"])))


def _link(path: object, text: object) -> Markup:
    return Markup('<a href="{}">{}</a>').format(path, text)


def _extract(text: str, path: str) -> Markup:
    """The beginning of a page's text, or what a search found in it, in one line: columns have many line ends."""
    query = table_query.get()
    if isinstance(query, Query):
        shown, path = mark(" ".join(query.snippet(text).split())), f"{path}?q={quote(query.text)}"
    elif len(line := " ".join(text.split())) > TRUNCATE_AFTER:
        shown = Markup("{}…").format(line[:TRUNCATE_AFTER])
    else:
        return Markup("{}").format(line)
    return Markup('{} <a class="clerk-whole" href="{}">whole page</a>').format(shown, path)


def _summarize(value: str, column: str) -> Markup | None:
    """`5 people, 1 place`. None if a plugin wrote something else."""
    try:
        found = json.loads(value)
        counts = {name: len(found.get(name, [])) for name in _FINDINGS[column]}
    except (ValueError, TypeError, AttributeError):
        return None
    parts = [f"{number} {_NAMES[name][number != 1]}" for name, number in counts.items() if number]
    return Markup("{}").format(", ".join(parts) or "none")
