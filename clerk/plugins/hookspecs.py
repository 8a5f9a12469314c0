"""The hooks: every place where a plugin can have its say. clerk's own fetchers, extractors and deployers use them too.

A plugin is a module (or an object) with functions of these names, marked with `@hookimpl`; it may leave out
arguments that it does not need. Returning None means "not mine". docs/plugins.md says more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pluggy

if TYPE_CHECKING:
    from clerk.sources.fetcher import Fetcher

PROJECT = "clerk"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def fetcher_class(label: str) -> type[Fetcher] | None:
    """The class that fetches for sites whose `scraper` is this label."""


@hookspec(firstresult=True)
def fetcher_extra(label: str) -> Mapping[str, Any] | None:
    """Defaults for the `extra` of sites with this scraper; what a site says itself goes before them."""


@hookspec(firstresult=True)
def extractor(label: str) -> Any:
    """The extractor of people and votes of this name: see clerk.extraction.contract for what it must have."""


@hookspec
def deploy_municipality(subdomain: str) -> Any:
    """Publish a site's archive, STORAGE_DIR/{subdomain}/meetings.db. Raising fails the deploy.

    Called for every new content of a site that names this plugin in its extra (or names no deployer at all). After a
    crash it may be called again for the same content. What it returns is kept as text: say where the archive went.
    """


@hookspec
def upload_static_file(file_path: Path, storage_path: str) -> Any:
    """Put one file, a PDF or a page image, where readers get it, under storage_path.

    Called when a document was read, for each of its files; again if the document is read again.
    """


@hookspec
def post_create(subdomain: str) -> None:
    """A site was added."""


@hookspec
def post_deploy(site: Mapping[str, Any]) -> None:
    """A site was published. `site` is its row. Raising has this tried again, without deploying twice."""


@hookspec
def pre_compilation(subdomain: str, run_id: int) -> None:
    """Before meetings.db is built: page texts lie ready. Raising fails the compilation."""


@hookspec
def post_compilation(subdomain: str, database_path: Path, run_id: int) -> None:
    """meetings.db is built, and takes its place when every plugin has seen it. Raising fails the compilation.

    database_path is the draft: tables that you add to it are published with the rest, and if anything fails, the
    archive stays as it was. It has another name afterwards, so do not keep the path.
    """


@hookspec
def register_cli_commands() -> click.Command | Iterable[click.Command] | None:
    """Commands to add to `clerk`."""
