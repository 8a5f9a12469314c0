"""Downloads never overwrite other content."""

from __future__ import annotations

from clerk.documents.storage import pending_download
from clerk.object_storage.path import StoragePath
from tests.s3 import BOTH

STORAGES = BOTH


def download(folder: StoragePath, content: bytes, final: StoragePath) -> None:
    with pending_download(folder) as pending:
        pending.file.write(content)
        pending.move_to(final)


def test_a_different_file_at_the_final_path_is_kept(storage_root: StoragePath) -> None:
    final = storage_root / "pdfs" / "2024-01-02.pdf"
    for content in (b"one", b"one", b"two", b"three"):
        download(storage_root, content, final)
        assert final.read_bytes() == content
    assert {path.name: path.read_bytes() for path in final.parent.iterdir()} == {
        "2024-01-02.pdf": b"three",
        "2024-01-02.pdf.replaced": b"one",
        "2024-01-02.pdf.replaced-2": b"two",
    }
