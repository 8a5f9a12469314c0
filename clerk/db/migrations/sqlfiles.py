"""The files of `sql/`: numbered migrations, and functions, triggers and views with one file each.

A file may start with `-- key: value` lines. In a migration, `transaction: none` runs its statements one by one
outside a transaction (for `create index concurrently`). In other files, `needs: NNNN` names the newest migration that
the definition depends on, and `until: cleanup` marks objects that are dropped with legacy clerk's columns.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from clerk.errors import MigrationError
from clerk.package_data import data_path

KINDS = {"function": "functions", "trigger": "triggers", "view": "views"}
"""Kind → folder, in the order in which they are applied."""

CLEANUP_MARK = "legacy_columns"
"""The table that sql/legacy/cleanup.up.sql creates. While it exists, objects marked `until: cleanup` do not."""

_MIGRATION = re.compile(r"(\d{4})_([a-z0-9_]+)\.up\.sql")
_HEADER = re.compile(r"-- ([a-z]+): (.+)")


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _headers(sql: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in sql.splitlines():
        if not (match := _HEADER.fullmatch(line)):
            break
        headers[match[1]] = match[2].strip()
    return headers


@dataclass(frozen=True)
class Migration:
    version: int
    title: str
    up: str
    down: str

    @property
    def name(self) -> str:
        return f"{self.version:04}_{self.title}"

    @property
    def checksum(self) -> str:
        return checksum(self.up)

    @property
    def in_transaction(self) -> bool:
        return _headers(self.up).get("transaction") != "none"


def statements(sql: str) -> list[str]:
    """Split a file into statements at each `;` that ends a line. The file must not contain function bodies."""
    without_comments = re.sub(r"^--.*\n?", "", sql, flags=re.MULTILINE)
    return [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", without_comments) if part.strip()]


@dataclass(frozen=True)
class SqlObject:
    kind: str
    name: str
    sql: str
    file: str

    @cached_property
    def needs(self) -> int:
        try:
            return int(_headers(self.sql)["needs"])
        except (KeyError, ValueError):
            raise MigrationError(
                f"{self.file} does not say which migration it needs",
                'add a first line like "-- needs: 0003"',
            ) from None

    @cached_property
    def until_cleanup(self) -> bool:
        return _headers(self.sql).get("until") == "cleanup"

    @cached_property
    def checksum(self) -> str:
        return checksum(self.sql)


@dataclass(frozen=True)
class SqlFolder:
    root: Path

    @cached_property
    def migrations(self) -> tuple[Migration, ...]:
        migrations = []
        for path in sorted((self.root / "migrations").glob("*.up.sql")):
            match = _MIGRATION.fullmatch(path.name)
            if match is None:
                raise MigrationError(f"{path} has no migration number in its name", "name it NNNN_what.up.sql")
            down = path.with_name(path.name.replace(".up.sql", ".down.sql"))
            if not down.exists():
                raise MigrationError(f"{path.name} has no matching down migration", f"write {down.name} beside it")
            migrations.append(
                Migration(int(match[1]), match[2], path.read_text(encoding="utf-8"), down.read_text(encoding="utf-8"))
            )
        versions = [migration.version for migration in migrations]
        if versions != list(range(1, len(migrations) + 1)):
            raise MigrationError(
                f"the migrations in {self.root} are not numbered 1, 2, 3, … ({versions})", "renumber them"
            )
        return tuple(migrations)

    @cached_property
    def objects(self) -> tuple[SqlObject, ...]:
        return tuple(
            SqlObject(kind, path.stem, path.read_text(encoding="utf-8"), f"sql/{path.relative_to(self.root)}")
            for kind, folder in KINDS.items()
            for parent in (self.root / folder, self.root / "legacy" / folder)
            for path in sorted(parent.rglob("*.sql"))
        )

    @property
    def newest(self) -> int:
        return len(self.migrations)

    @property
    def grants(self) -> SqlObject:
        return SqlObject("grants", "grants", self.read("grants.sql"), "sql/grants.sql")

    @property
    def replaced_triggers(self) -> SqlObject:
        name = "replaced_triggers"
        return SqlObject("triggers", name, self.read(f"{name}.sql"), f"sql/{name}.sql")

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")


@cache
def default_folder() -> SqlFolder:
    return SqlFolder(data_path("sql"))
