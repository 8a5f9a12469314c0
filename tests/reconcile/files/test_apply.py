"""Between plan and application files change: what is being written, fetched or brought back is left alone."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

from clerk.reconcile.plan import make_plan
from clerk.reconcile.repair import Repair
from tests.reconcile.files.site_fixture import World, start_run


def plan(world: World) -> list[Repair]:
    return make_plan(world.connection, world.scan(), None, timedelta(0))


def apply(world: World, repairs: list[Repair]) -> list[str]:
    """Kinds of those that found something to do."""
    done = []
    for repair in repairs:
        with world.connection.transaction():
            if repair.apply(world.connection):
                done.append(repair.kind)
    return done


@pytest.mark.parametrize("texts", ["there", "gone"])
@pytest.mark.parametrize("arrived", ["a little more", "all"])
def test_a_pdf_that_is_being_copied_is_not_set_aside(world: World, texts: str, arrived: str) -> None:
    document = world.document("2024-01-02")
    pdf = world.storage.pdf(document)
    whole = pdf.read_bytes()
    pdf.write_bytes(whole[:300])
    if texts == "gone":
        shutil.rmtree(world.storage.texts(document))
    planned = plan(world)
    assert [repair.kind for repair in planned] == ["texts-lost" if texts == "gone" else "pdf-damaged", "storage-run"]
    pdf.write_bytes(whole if arrived == "all" else whole[:400])
    assert apply(world, planned) == []
    assert pdf.read_bytes() == (whole if arrived == "all" else whole[:400])
    assert world.all_read
    assert world.one("select count(*) from content_items where pdf_missing_since is not null") == (0,)


def test_a_damaged_pdf_is_left_to_a_run_that_has_begun(world: World) -> None:
    pdf = world.storage.pdf(world.document("2024-01-02"))
    pdf.write_bytes(b"%PDF-1.4 and no more")
    planned = plan(world)
    start_run(world.connection)
    assert apply(world, planned) == []
    assert pdf.exists()


def test_what_was_set_aside_before_is_kept(world: World) -> None:
    pdf = world.storage.pdf(world.document("2024-01-02"))
    for damage in (b"%PDF-1.4 one", b"%PDF-1.4 two", b"%PDF-1.4 three"):
        pdf.write_bytes(damage)
        assert world.repair() == ["pdf-damaged", "storage-run"]
    aside = [pdf.with_name(f"{pdf.name}.{name}") for name in ("damaged", "damaged-2", "damaged-3")]
    assert [path.read_bytes() for path in aside] == [b"%PDF-1.4 one", b"%PDF-1.4 two", b"%PDF-1.4 three"]
