"""What was found in a document, kept in extracted.json beside its texts.

It is good for just the texts it was made from: another text, and it counts for nothing. Another version of the
extractor has the document extracted again, but until then what the older one found is better than nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clerk.documents.storage import write
from clerk.extraction.schema import Findings

_FORM = 1
Texts = Sequence[tuple[int, str]]


@dataclass(frozen=True)
class CachedFindings:
    extractor: str
    version: str
    text_sha256: str
    pages: dict[int, Findings]


def text_hash(texts: Texts) -> str:
    """Of all pages: what is found on one may stand on another."""
    whole = hashlib.sha256()
    for number, text in texts:
        content = text.encode()
        whole.update(b"%d %d\n" % (number, len(content)))
        whole.update(content)
    return whole.hexdigest()


def load(path: Path) -> CachedFindings | None:
    """None if there is none, or nothing that can be used: it can be made again at any time."""
    try:
        found = json.loads(path.read_bytes())
        if found["form"] != _FORM:
            return None
        pages = {
            int(page["page"]): Findings(str(page["entities_json"]), str(page["votes_json"])) for page in found["pages"]
        }
        return CachedFindings(str(found["extractor"]), str(found["version"]), str(found["text_sha256"]), pages)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def findings_for(path: Path, texts: Texts) -> dict[int, Findings]:
    extracted = load(path)
    return extracted.pages if extracted and extracted.text_sha256 == text_hash(texts) else {}


def save(path: Path, extracted: CachedFindings) -> None:
    content = {
        "form": _FORM,
        "extractor": extracted.extractor,
        "version": extracted.version,
        "text_sha256": extracted.text_sha256,
        "pages": [
            {"page": number, "entities_json": found.entities_json, "votes_json": found.votes_json}
            for number, found in sorted(extracted.pages.items())
        ],
    }
    write(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
