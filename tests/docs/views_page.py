"""Generates docs/views.md from the comments in sql/views/public: python -m tests.docs.views_page"""

from __future__ import annotations

import re
from pathlib import Path

from clerk.db.migrations.sqlfiles import SqlFolder, default_folder

PAGE = Path(__file__).parents[2] / "docs" / "views.md"
_COMMENT = re.compile(r"comment on (?:view|column) (\w+)(?:\.(\w+))? is\s+'((?:[^']|'')*)';")

_HEADER = """\
# Views

The interface for dashboards and queries: Grafana, Metabase, `psql`, and clerk's own dashboard. Names and columns are
stable; the tables under them may change. The role `clerk_dashboard` may read views only. `\\d+ pipeline_overview` in
`psql` shows the same descriptions. Views in `sql/views/internal` are not listed: they may change.

Unless a description says otherwise, a view reads no whole table that grows with the documents, and can be queried every
minute on ten thousand sites. A test checks the query plans.

| view | content |
| --- | --- |
"""


def page(folder: SqlFolder) -> str:
    views = {
        item.name: _COMMENT.findall(item.sql) for item in folder.objects if item.file.startswith("sql/views/public/")
    }
    lines = []
    for name, [(_, _, about), *columns] in sorted(views.items()):
        lines.append(f"| {f'[{name}](#{name})' if columns else name} | {_plain(about)} |")
    for name, [_, *columns] in sorted(views.items()):
        if columns:
            lines += ["", f"## {name}", "", "| column | meaning |", "| --- | --- |"]
            lines += [f"| {column} | {_plain(meaning)} |" for _, column, meaning in columns]
    return _HEADER + "\n".join(lines) + "\n"


def _plain(comment: str) -> str:
    return comment.replace("''", "'").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(default_folder()), encoding="utf-8")
