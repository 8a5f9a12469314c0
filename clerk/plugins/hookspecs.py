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
    from clerk.plugins.fetcher import Fetcher

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
    """The extractor of people and votes of this name: see clerk.plugins.extractors for what it must have."""


@hookspec
def deploy_municipality(subdomain: str) -> Any:
    """Publish a site's archive. Called once per deploy for every plugin that has it; raising fails the deploy."""


@hookspec
def upload_static_file(file_path: Path, storage_path: str) -> Any:
    """Put one file (a page image, say) where readers get it, under storage_path."""


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
    """meetings.db is built and in its place. Raising fails the compilation."""


@hookspec
def register_cli_commands() -> click.Command | Iterable[click.Command] | None:
    """Commands to add to `clerk`."""
