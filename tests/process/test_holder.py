from __future__ import annotations

import os
import socket

import pytest

from clerk.process.holder import new_holder, short_host


def test_a_holder_names_process_and_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "worker-3")
    first, second = new_holder(), new_holder()
    assert first != second
    assert first.split(" ")[1:] == ["clerk", str(os.getpid()), "worker-3"]


def test_the_name_of_a_pod_fits_and_keeps_what_is_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres cuts an application_name at 63 bytes. A pod's host name has up to 63, and the unique part last."""
    pods = ["clerk-of-a-release-with-a-long-name-compilation-7d9f8b6c5d-" + end for end in ("x2x9q", "x2x9r")]
    assert short_host(pods[0]) != short_host(pods[1])
    monkeypatch.setattr(os, "getpid", lambda: 4194304)
    monkeypatch.setattr(socket, "gethostname", lambda: pods[0])
    assert len(new_holder()) == 63
    assert new_holder().split(" ")[3] == short_host(pods[0])
