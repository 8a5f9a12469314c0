"""Cache of the findings of a document, in extracted.json beside its texts.

A cache is valid only for the texts that it was made from. If the extractor's version changes, the document is extracted
again; until then the archive uses the old findings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from clerk.documents.storage import write
from clerk.extraction.schema import Findings, with_result_text
from clerk.object_storage.path import StoragePath

_FORMAT = 1
Texts = Sequence[tuple[int, str]]


@dataclass(frozen=True)
class CachedFindings:
    extractor: str
    version: str
    text_sha256: str
    pages: dict[int, Findings]


def text_hash(texts: Texts) -> str:
    """Return a hash of all pages, because findings on one page depend on the others."""
    digest = hashlib.sha256()
    for number, text in texts:
        content = text.encode()
        digest.update(b"%d %d\n" % (number, len(content)))
        digest.update(content)
    return digest.hexdigest()


def load(path: StoragePath) -> CachedFindings | None:
    """Load a cache; None if it does not exist or is invalid."""
    try:
        values = json.loads(path.read_bytes())
        if values["form"] != _FORMAT:
            return None
        pages = {
            int(page["page"]): Findings(str(page["entities_json"]), with_result_text(str(page["votes_json"])))
            for page in values["pages"]
        }
        return CachedFindings(str(values["extractor"]), str(values["version"]), str(values["text_sha256"]), pages)
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def findings_for(path: StoragePath, texts: Texts) -> dict[int, Findings]:
    """Return the cached findings by page if they were made from these texts."""
    cached = load(path)
    return cached.pages if cached and cached.text_sha256 == text_hash(texts) else {}


def save(path: StoragePath, findings: CachedFindings) -> None:
    content = {
        "form": _FORMAT,
        "extractor": findings.extractor,
        "version": findings.version,
        "text_sha256": findings.text_sha256,
        "pages": [
            {"page": number, "entities_json": page.entities_json, "votes_json": page.votes_json}
            for number, page in sorted(findings.pages.items())
        ],
    }
    write(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
