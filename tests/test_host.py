from __future__ import annotations

import os
from pathlib import Path

import pytest

from clerk import host
from tests import disks


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("6400000 100000", 8)],
)
def test_cores_of_a_container(limit: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with two cores on a machine with eight does not start eight OCR processes."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(host, "_own_cgroups", lambda: [tmp_path])
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert host.count_cores() == cores


def test_cores_without_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5}, raising=False)
    monkeypatch.setattr(host, "_own_cgroups", lambda: [tmp_path])
    assert host.count_cores() == 2


def test_disks_are_listed_once_and_are_low_before_they_are_full(tmp_path: Path) -> None:
    with disks.small_disk(tmp_path / "storage") as folder:
        folders = {"storage": folder / "not yet", "published archives": folder, "temporary files": tmp_path}
        small, other = host.list_disks(folders)
        assert (small.folder, small.purpose) == (folder / "not yet", "storage, published archives")
        assert (other.folder, other.purpose) == (tmp_path, "temporary files")
        assert not small.is_low
        (folder / "ballast").write_bytes(b"x" * (small.free - 65_536))
        small = host.list_disks(folders)[0]
        assert (small.free, small.total, small.is_low) == (65_536, 1 << 20, True)


@pytest.mark.parametrize(("free", "is_low"), [(19, True), (21, False)])
def test_a_large_disk_is_low_below_20_gigabytes(free: int, is_low: bool) -> None:
    assert host.Disk(Path("/"), "storage", free * 10**9, 10**13).is_low is is_low
