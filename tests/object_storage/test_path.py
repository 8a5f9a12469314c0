"""Paths in a bucket behave like paths in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clerk import config
from clerk.documents.storage import list_names, quarantine, relative_name, sha256_file, write, write_files
from clerk.errors import EXIT_USAGE, SettingError
from clerk.object_storage.path import ObjectPath, StoragePath
from tests.s3 import BOTH

STORAGES = BOTH
NAMES = ("1.txt", "10.txt", "a b.txt", "Café [2] 100%.txt", "x~y.txt", "manifest.json")


def test_listing_and_deleting(storage_root: StoragePath) -> None:
    folder = storage_root / "txt" / "Café [2] & more"
    write_files(folder, {name: name.encode() for name in NAMES})
    assert sorted(list_names(folder)) == sorted(NAMES)
    assert sorted(path.name for path in folder.glob("*.txt")) == sorted(NAMES[:-1])
    assert {relative_name(path, storage_root) for path in storage_root.rglob("*.json")} == {
        "txt/Café [2] & more/manifest.json"
    }
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {name: name.encode() for name in NAMES}
    (folder / "1.txt").unlink()
    (folder / "1.txt").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (folder / "1.txt").unlink()
    assert not (folder / "1.txt").exists()
    assert folder.is_dir()
    assert not (storage_root / "txt" / "Café").exists(), "a folder is not the beginning of a name"


def test_what_is_written_is_read_again(storage_root: StoragePath) -> None:
    path = storage_root / "a" / "b.txt"
    for content in ("one", "two", "two"):
        write(path, content)
        assert path.read_text() == content
    assert path.stat().st_size == 3
    assert sha256_file(path) == "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
    quarantine(path, "damaged")
    assert list_names(path.parent) == ["b.txt.damaged"]


def test_a_snapshot_shows_what_was_written_through_it(root: ObjectPath) -> None:
    write(root / "a" / "1.txt", "one")
    snapshot = root.snapshot(root / "a")
    write(root / "a" / "2.txt", "two")
    assert [path.name for path in (snapshot / "a").iterdir()] == ["1.txt"]
    write(snapshot / "a" / "3.txt", "three")
    assert {path.name for path in (snapshot / "a").iterdir()} == {"1.txt", "3.txt"}
    assert (snapshot / "a" / "3.txt").read_text() == "three"
    (snapshot / "a" / "1.txt").unlink()
    assert not (snapshot / "a" / "1.txt").exists()
    assert {path.name for path in (snapshot.live() / "a").iterdir()} == {"2.txt", "3.txt"}


@pytest.mark.parametrize(
    "value",
    [
        "s3://key:hunter2@bucket/prefix",
        "s3://bucket/prefix?secret_access_key=hunter2",
        "s3://bucket/prefix?endpoint=https://user:hunter2@example.org",
        "s3://bucket/prefix?endpoint=https://example.org/?token=hunter2",
        "s3://?endpoint=https://example.org&x=hunter2",
        "s3://bucket/../hunter2",
        "s3://bucket?timeout=hunter2",
    ],
)
def test_credentials_in_the_setting_are_refused_and_not_repeated(value: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="STORAGE_DIR") as raised:
        config.load({"STORAGE_DIR": value}, tmp_path)
    assert "hunter2" not in str(raised.value)


def test_the_address_of_a_bucket(tmp_path: Path) -> None:
    url = "s3://bucket/some/prefix/?endpoint=http://127.0.0.1:9000&region=eu-1"
    environ = {"STORAGE_DIR": url, "CLERK_CACHE_MB": "5"}
    settings = config.load(environ, tmp_path)
    assert isinstance(settings.storage_dir, ObjectPath)
    assert str(settings.storage_dir) == "s3://bucket/some/prefix"
    assert str(settings.publish_dir) == "s3://bucket/some/prefix/_published"
    assert settings.storage_dir.cache.folder == tmp_path / ".clerk" / "cache"
    assert settings.storage_dir.cache.max_bytes == 5_000_000
    (setting,) = [setting for setting in config.SETTINGS if setting.name == "STORAGE_DIR"]
    assert setting.show(settings.storage_dir) == "s3://bucket/some/prefix?endpoint=http://127.0.0.1:9000&region=eu-1"
    assert setting.show(settings.publish_dir) == (
        "s3://bucket/some/prefix/_published?endpoint=http://127.0.0.1:9000&region=eu-1"
    )


def test_without_the_package_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['obstore'] = None; sys.argv = ['clerk', 'config']; import clerk.cli; clerk.cli.main()"
    )
    environment = {"PATH": os.environ["PATH"], "STORAGE_DIR": "s3://bucket"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == EXIT_USAGE
    assert result.stderr == (
        "clerk: STORAGE_DIR (from environment) names a bucket, which needs a package that is not installed:"
        " install clerk[cloud].\n"
    )
