"""`clerk verify`: I1 to I8 by name, I6 from the files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from clerk.cli import cli
from tests.reconcile.files.site_fixture import StoredSite
from tests.s3 import BOTH_IF_LONG

STORAGES = BOTH_IF_LONG

NAMES = [f"I{number}" for number in range(1, 9)]


def verify(*options: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(cli, ["verify", "--json", *options])
    checks = json.loads(result.stdout)["checks"]
    assert [check["name"] for check in checks][:8] == NAMES
    return result.exit_code, {check["name"]: check for check in checks}


def test_every_check_succeeds(site: StoredSite) -> None:
    for options in ((), ("--full",)):
        code, checks = verify(*options)
        assert code == 0
        assert all(check["ok"] for check in checks.values())
        assert ("1 published sites of 1" if options else "1 of 1 published sites") in checks["I6"]["about"]
        assert "every" not in checks["I6"]["about"], "unless --full is given, only some are checked"
    result = CliRunner().invoke(cli, ["verify"])
    assert [line.split()[:2] for line in result.stdout.splitlines()][:8] == [["ok", f"{name}:"] for name in NAMES]


def test_a_damaged_published_copy_is_reported(site: StoredSite) -> None:
    path = site.published.database.resolve()
    path.write_bytes(path.read_bytes()[:5000])
    code, checks = verify()
    assert code == 1
    assert "the published copy is damaged" in checks["I6"]["problems"][0]


def test_full_reports_incomplete_files(site: StoredSite) -> None:
    document = site.document("2024-01-02")
    pdf = site.storage.pdf(document)
    pdf.write_bytes(pdf.read_bytes()[:100])
    text = site.storage.page_text(document, 1)
    text.write_bytes(text.read_bytes()[:10])
    code, checks = verify("--full")
    assert code == 1
    assert len(checks["I6"]["problems"]) == 2
    assert verify()[0] == 0, "the quick check opens databases only"
    site.connection.execute("delete from publication_steps; delete from publications")
    code, checks = verify("--full")
    assert len(checks["I6"]["problems"]) == 2, "also of sites that were never published"
    site.connection.execute(
        "update content_item_pipeline_state set status = 'failed_terminal' where content_item_id = %s", [document.id]
    )
    assert "its PDF differs from the fetched one" in str(verify("--full")[1]["I6"]["problems"]), (
        "also of documents that were not processed"
    )


@pytest.mark.folder_only
def test_a_missing_storage_makes_i6_unknown(site: StoredSite) -> None:
    site.storage.root.rename(site.folder / "elsewhere")
    code, checks = verify()
    assert code == 3
    assert checks["I6"]["ok"] is None
    assert "the storage is missing" in checks["I6"]["unknown"]
    assert checks["I5"]["ok"] is True

    without_files = CliRunner().invoke(cli, ["verify", "--json", "--no-files"])
    assert without_files.exit_code == 0
    assert "I6" not in [check["name"] for check in json.loads(without_files.stdout)["checks"]]


def test_verify_changes_no_file(site: StoredSite) -> None:
    def files() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in site.storage.root.rglob("*")
            if path.is_file()
        }

    before = files()
    verify("--full")
    assert files() == before
