"""A published archive with votes, for tests of commands and pages."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from clerk.archive import vote_tables
from clerk.extraction.rules import Rules
from clerk.extraction.schema import validate
from tests.archive.published import publish

PAGE = """PRESENT: Mayor Ellen Ortiz, Council Members Dana Whitfield, Li Wei Chen
Council Member Chen moved to adopt Ordinance 12. Council Member Whitfield seconded.
Ayes: Chen, Whitfield. Nays: Ortiz. Motion carried 2-1.

Council Member Whitfield moved to waive the fee. Council Member Chen seconded. Motion carried 1-2.
"""


def publish_votes(root: Path, subdomain: str, *texts: str) -> Path:
    """Publish an archive with a page per text, with its findings."""
    database = publish(root, subdomain, *({"text": text, "page": number} for number, text in enumerate(texts, 1)))
    found = validate("rules", Rules().extract(list(enumerate(texts, 1))), range(1, len(texts) + 1))
    with closing(sqlite3.connect(database)) as connection, connection:
        for number, findings in found.items():
            values = [findings.entities_json, findings.votes_json, str(number)]
            connection.execute("update minutes set entities_json = ?, votes_json = ? where id = ?", values)
        vote_tables.update(connection)
    return database
