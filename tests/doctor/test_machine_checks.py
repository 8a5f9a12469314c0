"""Each check of this machine and of the settings, in its failing state."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from clerk import config, host
from clerk.config import Settings
from clerk.doctor import machine_checks
from clerk.doctor.finding import Finding, run_check
from clerk.doctor.setting_checks import load_settings
from clerk.ocr import landlock
from tests.s3 import BUCKET


def load(folder: Path, **environ: str) -> Settings:
    return config.load(environ, folder)


def test_this_machine_has_no_problem(tmp_path: Path) -> None:
    findings = machine_checks.check_machine(load(tmp_path))
    assert {finding.name for finding in findings} >= {"python", "poppler", "ocr", "memory", "disk", "sandbox"}
    # A kernel without Landlock is a problem of the machine that runs the tests.
    assert [finding for finding in findings if finding.status != "ok" and finding.name != "sandbox"] == []
    assert list(tmp_path.iterdir()) == []


def test_python(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine_checks.check_python((3, 10, 2))
    assert (found.status, found.what) == ("problem", "Python 3.10.2")

    class WithoutFts5(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("no such module: fts5")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name: connect(name, factory=WithoutFts5))
    found = machine_checks.check_python()
    assert found.status == "problem"
    assert "without full-text search (no such module: fts5)" in found.what


def test_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = run_check("poppler", machine_checks.check_poppler)
    assert found == Finding("poppler", "pdfinfo is not installed", "on Debian: apt install poppler-utils")
    found = run_check("ocr", lambda: machine_checks.check_engine(load(tmp_path, CLERK_OCR_ENGINE="easyocr")))
    assert found.status == "problem"
    assert "CLERK_OCR_ENGINE is 'easyocr'" in found.what


def test_languages(tmp_path: Path) -> None:
    found = machine_checks.check_languages(load(tmp_path), {"eng", "tlh"})
    assert found.what == "sites need tlh, for which there is no model"
    assert found.remedy == "on Debian: apt install tesseract-ocr-tlh"


def test_plugins(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    found = machine_checks.check_plugins(load(tmp_path, CLERK_PLUGINS_DIR=str(tmp_path)))
    assert found.status == "problem"
    assert "nothing_of_that_name" in found.what


def test_memory_and_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_machine_memory", lambda: [("the machine", 1 << 20, 1 << 30)])
    found = machine_checks.check_memory()
    assert found.what == "the machine has 1 of 1,024 MiB of memory available"
    assert found.status == "problem"

    def fail() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pipe", fail)
    assert machine_checks.check_open_files().status == "problem"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (found,) = machine_checks.check_disks(load(tmp_path, STORAGE_DIR="/proc/clerk", CLERK_PUBLISH_DIR=str(tmp_path)))
    assert found.status == "problem"
    assert found.what.startswith("/proc/clerk cannot be written")


def test_a_disk_with_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_MIN_FREE_SHARE", 2.0)
    (found,) = machine_checks.check_disks(load(tmp_path, CLERK_MIN_FREE_MB="1000000"))
    assert found.status == "problem"
    assert "no site is fetched" in found.what


def test_a_bucket(tmp_path: Path, bucket_url: str) -> None:
    (found,) = machine_checks.check_buckets(load(tmp_path, STORAGE_DIR=bucket_url))
    assert found.status == "ok"
    missing = bucket_url.replace(f"s3://{BUCKET}", "s3://no-such-bucket")
    (found,) = machine_checks.check_buckets(load(tmp_path, STORAGE_DIR=missing))
    assert found.status == "problem"
    assert "create the bucket" in (found.remedy or "")


def test_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    found = machine_checks.check_sandbox()
    assert "kernel lacks Landlock" in found.what
    assert "Linux 5.13" in (found.remedy or "")


@pytest.mark.parametrize(
    ("environ", "what", "remedy"),
    [
        ({"CLERK_KEEP_VERSION": "3"}, "there is no setting CLERK_KEEP_VERSION", "rename it to CLERK_KEEP_VERSIONS"),
        ({"CLERK_STORAGE_DIR": "/x"}, "there is no setting CLERK_STORAGE_DIR", "rename it to STORAGE_DIR"),
        ({"CLERK_XYZZY": "3"}, "there is no setting CLERK_XYZZY", "remove it"),
        ({"CLERK_SMTP_HOST": "mail.example.org"}, "CLERK_SMTP_HOST is set without", "set CLERK_SMTP_FROM"),
        ({"CLERK_SMTP_FROM": "a@example.org"}, "is set without CLERK_SMTP_HOST", "set CLERK_SMTP_HOST"),
        ({"CLERK_SMTP_PASSWORD": "x"}, "CLERK_SMTP_PASSWORD is set without CLERK_SMTP_USER", "set both"),
        (
            {
                "CLERK_SMTP_HOST": "mail.example.org",
                "CLERK_SMTP_FROM": "a@example.org",
                "CLERK_SMTP_USER": "a",
                "CLERK_SMTP_PASSWORD": "x",
                "CLERK_SMTP_TLS": "none",
            },
            "never sent without TLS",
            "starttls",
        ),
        ({"STORAGE_DIR": "/tmp/x", "CLERK_PUBLISH_DIR": "/tmp/x"}, "are the same (/tmp/x)", "different folders"),
        ({"CLERK_DIRECT_DATABASE_URL": "postgresql:///x"}, "DATABASE_URL is not", "set both"),
        ({"CLERK_OCR_DPI": "many"}, "CLERK_OCR_DPI (from environment)", ""),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_settings(environ: dict[str, str], what: str, remedy: str, tmp_path: Path) -> None:
    _, (found,) = load_settings(environ, tmp_path)
    assert found.status == "problem"
    assert what in found.what
    assert remedy in (found.remedy or "")


def test_settings_without_a_problem(tmp_path: Path) -> None:
    _, (found,) = load_settings({"CLERK_KEEP_VERSIONS": "3"}, tmp_path)
    assert (found.status, found.what) == ("ok", "1 set (CLERK_KEEP_VERSIONS)")
