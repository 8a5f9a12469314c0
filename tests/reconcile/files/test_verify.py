"""`clerk verify`: I1 to I8 by name, I6 from the files."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from clerk.cli import cli
from tests.reconcile.files.site_fixture import World

NAMES = [f"I{number}" for number in range(1, 9)]


def verify(*options: str) -> tuple[int, dict[str, Any]]:
    said = CliRunner().invoke(cli, ["verify", "--json", *options])
    found = json.loads(said.stdout)
    assert [check["name"] for check in found["checks"]][:8] == NAMES
    return said.exit_code, {check["name"]: check for check in found["checks"]}


def test_all_is_well(world: World) -> None:
    for options in ((), ("--full",)):
        code, checks = verify(*options)
        assert code == 0
        assert all(check["ok"] for check in checks.values())
        assert ("1 published sites of 1" if options else "1 of 1 published sites") in checks["I6"]["about"]
    said = CliRunner().invoke(cli, ["verify"])
    assert [line.split()[:2] for line in said.stdout.splitlines()][:8] == [["ok", f"{name}:"] for name in NAMES]


def test_a_published_database_that_is_damaged(world: World) -> None:
    path = (world.published.link / "meetings.db").resolve()
    path.write_bytes(path.read_bytes()[:5000])
    code, checks = verify()
    assert code == 1
    assert "the published copy is damaged" in checks["I6"]["problems"][0]


def test_what_is_partial_under_a_final_name(world: World) -> None:
    document = world.document("2024-01-02")
    pdf = world.storage.pdf(document)
    pdf.write_bytes(pdf.read_bytes()[:100])
    text = world.storage.page_text(document, 1)
    text.write_bytes(text.read_bytes()[:10])
    code, checks = verify("--full")
    assert code == 1
    assert len(checks["I6"]["problems"]) == 2
    assert verify()[0] == 0, "the quick check opens databases only"
    world.connection.execute("delete from publication_steps; delete from publications")
    code, checks = verify("--full")
    assert len(checks["I6"]["problems"]) == 2, "of sites that were never published too"
    world.connection.execute(
        "update content_item_pipeline_state set status = 'failed_terminal' where content_item_id = %s", [document.id]
    )
    assert "its PDF differs from the fetched one" in str(verify("--full")[1]["I6"]["problems"]), (
        "of what was not read too"
    )


def test_without_the_storage_nobody_can_tell(world: World) -> None:
    world.storage.root.rename(world.folder / "elsewhere")
    code, checks = verify()
    assert code == 3
    assert checks["I6"]["ok"] is None
    assert "the storage is missing" in checks["I6"]["unknown"]
    assert checks["I5"]["ok"] is True

    books = CliRunner().invoke(cli, ["verify", "--json", "--no-files"])
    assert books.exit_code == 0
    assert "I6" not in [check["name"] for check in json.loads(books.stdout)["checks"]]


def test_looking_changes_nothing(world: World) -> None:
    def files() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in world.storage.root.rglob("*")
            if path.is_file()
        }

    before = files()
    verify("--full")
    assert files() == before
