"""docs/views.md as it follows from the comments in sql/views; to write it anew: python -m tests.docs.views_page"""

from __future__ import annotations

import re
from pathlib import Path

from clerk.db.migrations.sqlfiles import SqlFolder, default_folder

PAGE = Path(__file__).parents[2] / "docs" / "views.md"
_COMMENT = re.compile(r"comment on (?:view|column) (\w+)(?:\.(\w+))? is\s+'((?:[^']|'')*)';")

_PREFACE = """\
# Views

The contract with dashboards: Grafana, Metabase, `psql`, and clerk's own. Their names and columns stay; the tables under
them may change. The role `clerk_dashboard` may read them and nothing else. `\\d+ pipeline_overview` in `psql` shows the
same words as here.

None of them reads a whole table that grows with the documents, except those that say so: they can be asked every
minute on ten thousand sites. A test holds their plans to that.

| view | says |
| --- | --- |
"""


def page(folder: SqlFolder) -> str:
    views = {item.name: _COMMENT.findall(item.sql) for item in folder.objects if item.kind == "view"}
    lines = []
    for name, [(_, _, about), *columns] in sorted(views.items()):
        lines.append(f"| {f'[{name}](#{name})' if columns else name} | {_plain(about)} |")
    for name, [_, *columns] in sorted(views.items()):
        if columns:
            lines += ["", f"## {name}", "", "| column worth knowing | meaning |", "| --- | --- |"]
            lines += [f"| {column} | {_plain(meaning)} |" for _, column, meaning in columns]
    return _PREFACE + "\n".join(lines) + "\n"


def _plain(comment: str) -> str:
    return comment.replace("''", "'").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(default_folder()), encoding="utf-8")
