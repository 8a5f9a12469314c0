"""Files that change between plan and repair: files that are being written, fetched or restored are not changed."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

from clerk.reconcile.plan import make_plan
from clerk.reconcile.repair import Repair
from tests.reconcile.files.site_fixture import StoredSite, start_run


def plan(site: StoredSite) -> list[Repair]:
    return make_plan(site.connection, site.scan(), None, timedelta(0))


def apply(site: StoredSite, repairs: list[Repair]) -> list[str]:
    """Kinds of the repairs that changed something."""
    done = []
    for repair in repairs:
        with site.connection.transaction():
            if repair.apply(site.connection):
                done.append(repair.kind)
    return done


@pytest.mark.parametrize("texts", ["present", "missing"])
@pytest.mark.parametrize("copied", ["partly", "completely"])
def test_a_pdf_that_is_being_copied_is_not_renamed(site: StoredSite, texts: str, copied: str) -> None:
    document = site.document("2024-01-02")
    pdf = site.storage.pdf(document)
    whole = pdf.read_bytes()
    pdf.write_bytes(whole[:300])
    if texts == "missing":
        shutil.rmtree(site.storage.texts(document))
    planned = plan(site)
    assert [repair.kind for repair in planned] == ["texts-lost" if texts == "missing" else "pdf-damaged", "storage-run"]
    pdf.write_bytes(whole if copied == "completely" else whole[:400])
    assert apply(site, planned) == []
    assert pdf.read_bytes() == (whole if copied == "completely" else whole[:400])
    assert site.all_processed
    assert site.one("select count(*) from content_items where pdf_missing_since is not null") == (0,)


def test_a_damaged_pdf_is_left_to_a_run_that_has_started(site: StoredSite) -> None:
    pdf = site.storage.pdf(site.document("2024-01-02"))
    pdf.write_bytes(b"%PDF-1.4 and no more")
    planned = plan(site)
    start_run(site.connection)
    assert apply(site, planned) == []
    assert pdf.exists()


def test_earlier_damaged_files_are_kept(site: StoredSite) -> None:
    pdf = site.storage.pdf(site.document("2024-01-02"))
    for damage in (b"%PDF-1.4 one", b"%PDF-1.4 two", b"%PDF-1.4 three"):
        pdf.write_bytes(damage)
        assert site.repair() == ["pdf-damaged", "storage-run"]
    damaged = [pdf.with_name(f"{pdf.name}.{name}") for name in ("damaged", "damaged-2", "damaged-3")]
    assert [path.read_bytes() for path in damaged] == [b"%PDF-1.4 one", b"%PDF-1.4 two", b"%PDF-1.4 three"]
