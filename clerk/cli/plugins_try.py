"""`clerk plugins try` and `clerk plugins accept`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from clerk import config
from clerk.cli.connection import Connection, open_pipeline
from clerk.cli.output import info, json_option, print_json, show, table, text
from clerk.cli.source import listing_rows, time_limit_option
from clerk.db.sites import SiteRow, read_site, site_not_found
from clerk.documents import manifest, repository
from clerk.documents.storage import Document, SiteStorage
from clerk.errors import EXIT_USAGE, ClerkError, JobError, PluginMissing
from clerk.extraction import code_versions
from clerk.extraction.schema import check_interface, validate
from clerk.humanize import pluralize
from clerk.pipeline.tasks.fetch import read_extra
from clerk.plugins import manager
from clerk.plugins.isolation import call_with_timeout
from clerk.publish.deployer_calls import deployer_calls
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.listing import MAX_EXAMPLES
from clerk.sources.source_lookup import list_site, shared

FETCHER, EXTRACTOR, DEPLOYER = "fetcher", "extractor", "deployer"


class PluginNotTried(ClerkError):
    """`clerk plugins try` cannot tell what to call, or has nothing to call it with."""

    code = "PluginNotTried"
    exit_code = EXIT_USAGE


class PluginTryFailed(ClerkError):
    """The plugin that was tried failed."""

    code = "PluginTryFailed"


@dataclass(frozen=True)
class _Trial:
    """What `clerk plugins try` was asked for."""

    settings: config.Settings
    connection: Connection
    plugins: manager.Plugins
    row: SiteRow
    dry_run: bool
    seconds: float
    document: int | None


@click.command("try")
@click.argument("name")
@click.option("--site", "subdomain", required=True, metavar="SITE", help="The site to try it with.")
@click.option(
    "--as",
    "part",
    type=click.Choice([FETCHER, EXTRACTOR, DEPLOYER]),
    help="Which part of the plugin, if NAME is several.",
)
@click.option("--document", type=int, metavar="ID", help="The document to extract from. Default: the newest with text.")
@time_limit_option
@click.option("--dry-run", is_flag=True, help="Only say what would be called, and with what.")
@json_option
def try_plugin(
    name: str,
    subdomain: str,
    part: str | None,
    document: int | None,
    time_limit: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a fetcher, extractor or deployer once, without a worker, and print its result.

    NAME is the label of a fetcher or extractor, or the name of a plugin (`clerk plugins` lists them). A fetcher lists
    the documents of SITE and downloads none; an extractor reads one document; both store nothing. A deployer publishes
    the archive of SITE, as in a run, but the publication is not recorded: the next run calls the deployer again.

    \b
    Examples:
      clerk plugins try noticeboard --site springfield
      clerk plugins try my-extractor --site springfield --document 17 --json
      clerk plugins try my_uploader --site springfield --dry-run
    """
    settings = config.load()
    plugins = manager.load(settings)
    with open_pipeline(settings) as connection:
        row = read_site(connection, subdomain)
        if row is None:
            raise site_not_found(connection, subdomain)
        trial = _Trial(settings, connection, plugins, row, dry_run, time_limit, document)
        found = _parts(trial, name)
        if part is not None:
            found = {key: value for key, value in found.items() if key == part}
        if not found:
            wanted = part or "fetcher, extractor or deployer"
            raise PluginNotTried(f"no plugin provides a {wanted} {name}", _list_problems(plugins))
        if len(found) > 1:
            raise PluginNotTried(f"{name} is a {' and a '.join(found)}", f"say which: --as {next(iter(found))}")
        ((kind, run),) = found.items()
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what the plugin prints is no part of the result
                result, rows = run()
        except JobError as error:
            raise PluginTryFailed(f"the {kind} {name} failed: {error}", error.remedy) from error
    if as_json:
        print_json({"name": name, "kind": kind, "site": subdomain, "dry_run": dry_run, "result": result})
        return
    show(table(rows) if rows else text("It returned nothing."))


def _list_problems(plugins: manager.Plugins) -> str:
    failed = "; ".join(f"{problem.name} was not loaded or not used: {problem.error}" for problem in plugins.problems)
    return failed or "list the plugins with `clerk plugins`"


Result = tuple[Any, list[tuple[str, Any]]]


def _parts(trial: _Trial, name: str) -> dict[str, Callable[[], Result]]:
    """What NAME is, with the function that runs it: by its label, or by the plugin that the site uses."""
    parts: dict[str, Callable[[], Result]] = {}
    for label in dict.fromkeys(filter(None, (name, trial.row.scraper))):
        if (plugin := _provider(trial, "fetcher_class", label)) and name in (label, plugin):
            parts.setdefault(FETCHER, lambda label=label: _list(trial, label))  # type: ignore[misc]
    for label in dict.fromkeys((name, extractor_label(trial))):
        if (plugin := _provider(trial, "extractor", label)) and name in (label, plugin):
            parts.setdefault(EXTRACTOR, lambda label=label: _extract(trial, label))  # type: ignore[misc]
    storage = SiteStorage(trial.settings.storage_dir, trial.row.subdomain)
    deployers = deployer_calls(trial.plugins, storage, check_claim=lambda: None)
    if name in deployers:
        parts[DEPLOYER] = lambda: _deploy(trial, name, deployers[name])
    return parts


def extractor_label(trial: _Trial) -> str:
    try:
        label = trial.row.extra_values.get("extractor")
    except ValueError:
        label = None
    return label if isinstance(label, str) else trial.settings.extractor


def _provider(trial: _Trial, hook: str, label: str) -> str | None:
    """The plugin that provides a label."""
    try:
        return trial.plugins.resolve(hook, label)[0]
    except PluginMissing:
        return None


def _list(trial: _Trial, label: str) -> Result:
    _, fetcher_class = trial.plugins.resolve("fetcher_class", label, Fetcher)
    extra = read_extra(trial.plugins, trial.row)
    if trial.dry_run:
        return {"extra": extra}, [("would list", text(f"{fetcher_class.__name__} with {json.dumps(extra)}"))]
    site = Site(trial.row.subdomain, trial.row.name or trial.row.subdomain, extra, trial.row.start_year)
    info(f"Listing {trial.row.subdomain} …")
    listing = list_site(trial.settings, shared(trial.connection), site, label, trial.seconds, lambda _: None)
    rows = [
        *(
            (str(ref.date or "no date"), text(f"{ref.kind or 'unknown kind'}, {ref.meeting}: {ref.url}"))
            for ref in listing.examples
        ),
        *listing_rows(listing),
    ]
    if listing.documents > MAX_EXAMPLES:
        rows.insert(MAX_EXAMPLES, ("…", f"and {listing.documents - MAX_EXAMPLES:,} more"))
    return listing.as_dict(), rows


def _extract(trial: _Trial, label: str) -> Result:
    plugin, provided = trial.plugins.resolve("extractor", label)
    extractor = check_interface(label, plugin, provided)
    document, texts = _texts(trial)
    if trial.dry_run:
        return {"document": document.id, "pages": len(texts)}, [
            ("would extract", f"from {_name(document)}, {pluralize(len(texts), 'page')}")
        ]
    output = call_with_timeout(
        plugin,
        f"the extraction of document {document.id}",
        lambda: extractor.extract(texts),
        timeout=trial.settings.plugin_time_limit,
    )
    findings = validate(label, output, [number for number, _ in texts])
    pages = {
        number: {**json.loads(page.entities_json), **json.loads(page.votes_json)} for number, page in findings.items()
    }
    rows: list[tuple[str, Any]] = [("document", text(_name(document)))]
    for number, page in pages.items():
        counts = [f"{kind}: {_examples(entries)}" for kind, entries in page.items() if entries]
        rows.append((f"page {number}", text("; ".join(counts) or "nothing")))
    result = {"document": document.id, "version": extractor.version, "pages": pages}
    return result, rows


def _examples(entries: list[dict[str, Any]]) -> str:
    names = [str(entry.get("text") or entry.get("result_text") or entry.get("raw_text", ""))[:60] for entry in entries]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _texts(trial: _Trial) -> tuple[Document, list[tuple[int, str]]]:
    """The document to extract from, and its pages: the one that was named, or the newest with text."""
    site = trial.row.subdomain
    documents = repository.list_documents(trial.connection, site)
    if trial.document is not None:
        documents = [document for document in documents if document.id == trial.document]
        if not documents:
            raise PluginNotTried(f"{site} has no document {trial.document}", f"`clerk status {site}` shows the site")
    storage = SiteStorage(trial.settings.storage_dir, site)
    for document in sorted(documents, key=lambda document: (document.date, document.id), reverse=True):
        try:
            pages = list(manifest.page_texts(storage, document))
        except manifest.ManifestUnreadable:
            continue
        if pages:
            return document, pages
    raise PluginNotTried(f"{site} has no document with text", f"run it first: clerk update {site} --wait")


def _name(document: Document) -> str:
    return f"{document.id}: {document.meeting}, {document.date}, {document.kind}"


def _deploy(trial: _Trial, name: str, call: Callable[[], Any]) -> Result:
    site = trial.row.subdomain
    database = SiteStorage(trial.settings.storage_dir, site).database
    if not database.exists():
        raise PluginNotTried(f"{site} has no archive yet", f"run it first: clerk update {site} --wait")
    if trial.dry_run:
        return {"database": str(database)}, [("would publish", text(f"{database} with {name}"))]
    limit = max(trial.settings.plugin_time_limit, trial.settings.deploy_time_limit)
    result = call_with_timeout(name, "deploy_municipality", call, timeout=limit)
    return None if result is None else str(result), [("published", text(str(result)))] if result is not None else []


@click.command()
@click.argument("extractor")
@click.option("--dry-run", is_flag=True, help="Only say what would be accepted.")
@json_option
def accept(extractor: str, dry_run: bool, as_json: bool) -> None:
    """Accept that EXTRACTOR was edited without a new version, for an edit that does not change its findings.

    clerk reports such an edit, because documents extracted before it keep their findings. After an edit that changes
    findings, give the extractor a new version instead: all documents are then extracted again in their next run.

    \b
    Examples:
      clerk plugins accept my-extractor
      clerk plugins accept my-extractor --dry-run
    """
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        count = code_versions.accept(connection, extractor)
        if not count:
            edited = [name for (name,) in connection.execute("select extractor from edited_extractors").fetchall()]
            known = (
                f"edited extractors: {', '.join(edited)}" if edited else "no extractor was edited without a new version"
            )
            raise PluginNotTried(f"no edit of an extractor {extractor} is reported", known)
    if as_json:
        print_json({"extractor": extractor, "forgotten": count, "dry_run": dry_run})
        return
    click.echo(f"{'Would accept' if dry_run else 'Accepted'} the code of {extractor} that is in use.")
