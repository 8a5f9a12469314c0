"""The schema as text, committed as `sql/schema.snapshot.sql`; `clerk verify` compares a database with it."""

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
        # One fact per line, also for comments of several lines.
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
    """The expected schema without the columns and triggers that sql/legacy/cleanup.up.sql removes."""
    columns = re.findall(r"drop column (\w+)", folder.read("legacy/cleanup.up.sql"))
    removed = tuple(f"alter table sites add column {column} " for column in columns) + tuple(
        f"CREATE TRIGGER {item.name} " for item in folder.objects if item.until_cleanup and item.kind == "trigger"
    )
    return {section: [line for line in lines if not line.startswith(removed)] for section, lines in wanted.items()}


def missing(live: Sections, wanted: Sections) -> Sections:
    """The lines of `wanted` that `live` lacks. Additional objects in the database are allowed."""
    present = {section: {_normalized(line) for line in lines} for section, lines in live.items()}
    return {
        section: [line for line in lines if _normalized(line) not in present.get(section, set())]
        for section, lines in wanted.items()
    }


def _normalized(line: str) -> str:
    """Without casts and parentheses: Postgres casts a list of strings as a whole, and after a restore one by one."""
    return re.sub(r"::(?:character varying|text)(?:\[\])?|[()]", "", line)
