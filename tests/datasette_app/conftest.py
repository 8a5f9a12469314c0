from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from clerk.documents import manifest
from clerk.publish.versions import SiteVersions, Version
from tests.archive.published import write_archive


@dataclass(frozen=True)
class Archives:
    """A storage folder and its published versions."""

    storage: Path
    published: Path

    def publish(self, subdomain: str, *texts: str, kind: str = "minutes", meeting: str = "City Council") -> Version:
        """Publish a version with a page per text. Each row names an image, which may not exist."""
        draft = self.storage / subdomain / "draft.db"
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        prefix = "/_agendas" if kind == "agenda" else ""
        rows = (
            {
                "kind": kind,
                "meeting": meeting,
                "page": number,
                "text": text,
                "page_image": f"{prefix}/CityCouncil/2024-03-05/{number}.png",
            }
            for number, text in enumerate(texts, 1)
        )
        write_archive(draft, *rows)
        return SiteVersions(self.published, subdomain).publish(draft, keep=2)

    def add_image(self, subdomain: str, path: str, content: bytes = b"\x89PNG of a page") -> Path:
        image = self.storage / subdomain / path
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(content)
        return image

    def add_document(self, subdomain: str, stem: str, *texts: str, file: str = "", content: bytes = b"%PDF-") -> Path:
        """Store the page texts of minutes of the City Council, and the file as it was fetched."""
        folder = self.storage / subdomain / "txt/CityCouncil" / stem
        pages = [
            manifest.Page(number, manifest.OCR, len(text), None, 1, 0, manifest.digest(text.encode()))
            for number, text in enumerate(texts, 1)
        ]
        manifest.save(folder / "manifest.json", manifest.Manifest(None, len(pages), "eng", tuple(pages)))
        return self.add_image(subdomain, f"pdfs/CityCouncil/{file or stem + '.pdf'}", content)


@pytest.fixture
def archives(tmp_path: Path) -> Archives:
    return Archives(tmp_path / "storage", tmp_path / "published")
