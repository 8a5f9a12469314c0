"""Hook specifications. clerk's own fetchers, OCR engines, extractors and deployers implement them like any plugin.

A plugin is a module (or an object) with functions of these names, marked with `@hookimpl`. It may omit arguments that
it does not need. A hook with a `label` returns None for labels of other plugins. See docs/plugins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pluggy

if TYPE_CHECKING:
    from clerk.ocr.ocr_engine import OcrEngine
    from clerk.sources.fetcher import Fetcher

PROJECT = "clerk"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def fetcher_class(label: str) -> type[Fetcher] | None:
    """Return the fetcher class for sites whose `scraper` is this label."""


@hookspec(firstresult=True)
def fetcher_extra(label: str) -> Mapping[str, Any] | None:
    """Return default `extra` values for sites with this scraper. The site's own values override them."""


@hookspec
def provided_labels(hook: str) -> Iterable[str] | None:
    """Return the labels for which the plugin answers `hook`, fetcher_class or extractor.

    For messages and help only: a misspelt label is answered with the nearest one, and the settings of the fetchers
    become options of `clerk site add`. A label that is not returned here works as well.
    """


@hookspec(firstresult=True)
def extractor(label: str) -> Any:
    """Return the extractor with this label: an object like `clerk.extraction.schema.Extractor`."""


@hookspec
def ocr_engines() -> Mapping[str, type[OcrEngine]] | None:
    """Return OCR engines by the names that CLERK_OCR_ENGINE can have. They replace built-in ones of the same name.

    Each is a class of a module that can be imported: it runs in a process that loads no plugins.
    """


@hookspec
def deploy_municipality(subdomain: str, check_claim: Callable[[], None], database_path: Path) -> Any:
    """Publish a site's archive, the file `database_path`, which must not be changed. Raising fails the deploy.

    Called for each new content of a site whose `extra` names this plugin as deployer or names no deployer. After a
    crash it may be called again for the same content. The result is stored as text: return where the archive went.

    A worker that was frozen may continue when another worker has its job. A deployer that takes long calls
    `check_claim()` just before the archive becomes visible: it raises ClaimLost if the job belongs to another worker.
    """


@hookspec
def upload_static_file(file_path: Path, storage_path: str) -> Any:
    """Upload one file, a PDF or a page image, to the public storage under storage_path.

    Called for each file of a document after its OCR, and again if OCR is repeated.
    """


@hookspec
def post_create(subdomain: str) -> None:
    """A site was added."""


@hookspec
def post_deploy(site: Mapping[str, Any]) -> None:
    """A site was published. `site` is its row. If this raises, it is retried without deploying again."""


@hookspec
def pre_compilation(subdomain: str, run_id: int) -> None:
    """Page texts are complete and meetings.db is about to be built. Raising fails the compilation."""


@hookspec
def post_compilation(subdomain: str, database_path: Path, run_id: int) -> None:
    """meetings.db is built but not installed yet. Raising fails the compilation.

    database_path is a draft. Tables added to it are published with the archive. If anything fails, the previous archive
    stays in place. The draft is renamed when it is installed, so do not store the path.
    """


@hookspec
def register_cli_commands() -> click.Command | Iterable[click.Command] | None:
    """Return commands to add to `clerk`."""
