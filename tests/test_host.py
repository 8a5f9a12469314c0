from __future__ import annotations

import os
from pathlib import Path

import pytest

from clerk import host


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
