"""`clerk document`: one document."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from clerk import config
from clerk.cli.connection import open_pipeline
from clerk.cli.names import Group
from clerk.cli.output import info, json_option, print_json
from clerk.documents import manifest
from clerk.documents.manifest import Manifest, ManifestUnreadable
from clerk.documents.media_types import NAMES, PDF
from clerk.documents.repository import document_by_id
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document, SiteStorage, atomic_write, local_copy
from clerk.errors import EXIT_USAGE, ClerkError, DocumentUnknown
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath
from clerk.ocr.limited_child import ChildFailed
from clerk.ocr.searchable_pdf import PageTexts, read_page_texts, searchable_pdf

_MAX_ID = 2**63 - 1
_STDOUT = Path("-")
_WHERE_IDS_ARE = "`clerk status SITE --all` lists the IDs of a site's documents"


class DocumentNotFound(ClerkError):
    """There is no document with that ID."""

    code = "DocumentNotFound"
    exit_code = EXIT_USAGE


class _DocumentId(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no type parameter
    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not text.isdecimal() or not 1 <= int(text[:20]) <= _MAX_ID:
            self.fail(f"{text[:80]!r} is not the number of a document: {_WHERE_IDS_ARE}.", param, ctx)
        return int(text)


@click.group(cls=Group)
def document() -> None:
    """Export a document."""


@document.command()
@click.argument("document_id", metavar="ID", type=_DocumentId())
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Where to write it; - is standard output. Default: site, meeting and date, in the current folder.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@json_option
def pdf(document_id: int, output: Path | None, force: bool, as_json: bool) -> None:
    """Export a document as a searchable PDF.

    The pages are those of the PDF as it was fetched. Scanned pages get the text that OCR recognized, invisibly and at
    its place, so that every PDF viewer finds and selects it; they are rotated and deskewed as for OCR. Pages with a
    text layer of their own stay as they are. `clerk status SITE --all` lists the IDs; the dashboard has them in the
    addresses of documents.

    \b
    Examples:
      clerk document pdf 4711
      clerk document pdf 4711 -o minutes.pdf --force
      clerk document pdf 4711 -o - | pdftotext - -
    """
    if output == _STDOUT and as_json:
        raise click.UsageError("--json and -o - both write to standard output: give one of them.")
    settings = config.load()
    with open_pipeline(settings) as connection:
        try:
            row = document_by_id(connection, document_id)
        except DocumentUnknown as error:
            raise DocumentNotFound(str(error), _WHERE_IDS_ARE) from error
    storage = SiteStorage(settings.storage_dir, row.subdomain)
    if row.media_type != PDF:
        raise ClerkError(
            f"document {row.id} is {NAMES[row.media_type]}, not a PDF", f"the file as fetched is {storage.pdf(row)}"
        )
    target = output or Path(f"{row.subdomain} {folder_name(row.meeting)} {row.stem}.pdf")
    if target != _STDOUT and target.exists() and not force:
        raise ClerkError(f"{target} exists", "name another file with -o, or replace it with --force")
    loaded = _load_manifest(storage, row)
    texts = read_page_texts(storage, row, loaded)
    _write(storage.pdf(row), texts, target)
    if as_json:
        print_json(
            {
                "id": row.id,
                "site": row.subdomain,
                "file": str(target),
                "pages": loaded.page_count,
                "text_added": sorted(texts.boxes),
                "without_word_boxes": list(texts.without_boxes),
                "failed": [page.page for page in loaded.failed],
            }
        )
        return
    if target != _STDOUT:
        click.echo(f"{target}: {_describe(loaded, texts)}.")
    if texts.without_boxes:
        pages = pluralize(len(texts.without_boxes), "page")
        info(
            f"{pages} without searchable text: no word boxes are stored, as by earlier versions of clerk."
            " If OCR is repeated, it adds them."
        )


def _load_manifest(storage: SiteStorage, document: Document) -> Manifest:
    try:
        loaded = manifest.load(storage.manifest(document))
    except ManifestUnreadable as error:
        raise ClerkError(str(error), "repair it with `clerk reconcile-pipeline`") from error
    if loaded is None:
        raise ClerkError(
            f"there are no texts of document {document.id} under {storage.texts(document)}",
            "run OCR first, or run the command on the machine that has STORAGE_DIR",
        )
    return loaded


def _write(pdf: StoragePath, texts: PageTexts, target: Path) -> None:
    if not pdf.is_file():
        raise ClerkError(f"the file {pdf} is missing", "`clerk reconcile-pipeline` has it fetched again")
    try:
        with local_copy(pdf) as file, searchable_pdf(file, texts.boxes) as exported:
            if target == _STDOUT:
                shutil.copyfileobj(exported, sys.stdout.buffer)
            else:
                with atomic_write(target.absolute()) as written:
                    shutil.copyfileobj(exported, written)
    except ChildFailed as error:
        raise ClerkError(f"the PDF could not be exported ({error})", f"the PDF as fetched is {pdf}") from error
    except OSError as error:
        raise ClerkError(f"{error.filename or target}: {error.strerror}", "name another file with -o") from error


def _describe(loaded: Manifest, texts: PageTexts) -> str:
    pages = pluralize(loaded.page_count, "page")
    if not texts.boxes:
        return f"{pages}, as fetched"
    return f"{pages}, {len(texts.boxes)} with text from OCR"
