"""The schema as text: what is committed as `sql/schema.snapshot.sql`, and what `verify` holds a database to."""

from __future__ import annotations

import re

import psycopg

from clerk.db.migrations.sqlfiles import SqlFolder

FILE = "schema.snapshot.sql"
_PREFACE = (
    "-- The whole schema after every migration, a fact per line. Made by `clerk db snapshot`; never edited by hand.\n"
)

Sections = dict[str, list[str]]
"""Section → lines, in order."""


def take(connection: psycopg.Connection, folder: SqlFolder) -> Sections:
    sections: Sections = {}
    for section, line in connection.execute(folder.read("schema_query.sql").encode()):
        # A comment of several lines would break the rule of a fact per line.
        sections.setdefault(section, []).append(line.replace("\n", "\\n"))
    return sections


def render(sections: Sections) -> str:
    return _PREFACE + "".join(
        f"\n-- section: {section}\n" + "".join(f"{line}\n" for line in lines) for section, lines in sections.items()
    )


def parse(text: str) -> Sections:
    sections: Sections = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-- section: "):
            lines = sections.setdefault(line.removeprefix("-- section: "), [])
        elif line and sections:
            lines.append(line)
    return sections


def after_cleanup(wanted: Sections, folder: SqlFolder) -> Sections:
    """Without what sql/legacy/cleanup.up.sql takes away."""
    columns = re.findall(r"drop column (\w+)", folder.read("legacy/cleanup.up.sql"))
    gone = tuple(f"alter table sites add column {column} " for column in columns) + tuple(
        f"CREATE TRIGGER {item.name} " for item in folder.objects if item.until_cleanup and item.kind == "trigger"
    )
    return {section: [line for line in lines if not line.startswith(gone)] for section, lines in wanted.items()}


def missing(live: Sections, wanted: Sections) -> Sections:
    """What `wanted` has and `live` has not: what else a database holds is its own affair."""
    there = {section: {_meaning(line) for line in lines} for section, lines in live.items()}
    return {
        section: [line for line in lines if _meaning(line) not in there.get(section, set())]
        for section, lines in wanted.items()
    }


def _meaning(line: str) -> str:
    """A list of strings is cast as a whole, and, once Postgres has read its own dump, string by string."""
    return re.sub(r"::(?:character varying|text)(?:\[\])?|[()]", "", line)
