"""`clerk search-index`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.names import Group
from clerk.cli.output import dry_run_option, dry_run_prefix, info, json_option, print_json
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.errors import EXIT_FAILURE
from clerk.humanize import pluralize
from clerk.publish.index_documents import UpdateResult, require_tantivy
from clerk.publish.search_index import SearchIndex
from clerk.publish.versions import current_versions

_WAIT = 600.0
"""Seconds to wait for another process that writes to the index."""


@click.group("search-index", cls=Group)
def search_index() -> None:
    """Manage the search index over all sites. Optional: it makes searches over many sites fast.

    Searches use it as soon as it exists, and every deploy updates it. Sites that it does not have in their current
    version are searched in their archives. It needs the extra clerk[index].
    """


@search_index.command()
@quiet_option
@dry_run_option
@json_option
def build(quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Build the index, or build it again. Searches are not interrupted.

    \b
    Examples:
      clerk search-index build
    """
    index = _index()
    wanted = current_versions(index.publish_dir) if index.publish_dir.is_dir() else {}
    if dry_run and as_json:
        print_json({"due": sorted(wanted), "gone": []})
        return
    if dry_run:
        click.echo(dry_run_prefix(dry_run, f"the pages of {pluralize(len(wanted), 'site')} would be indexed"))
        return
    with ProgressReporter(quiet) as progress:
        result = index.build(wanted, progress.callback("sites"))
    # Deploys that ran meanwhile updated the index that was replaced.
    later = index.update(current_versions(index.publish_dir), wait=_WAIT)
    result.updated |= later.updated
    _report(result, as_json)


@search_index.command()
@quiet_option
@dry_run_option
@json_option
def update(quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Index what was published since, and remove sites that are no longer published.

    Every deploy does this for its site. The command is for sites whose archives were changed in another way, for
    example restored from a backup.

    \b
    Examples:
      clerk search-index update
      clerk search-index update --dry-run
    """
    index = _existing_index()
    wanted = current_versions(index.publish_dir)
    if dry_run:
        indexed = index.versions()
        due = [site for site, version in wanted.items() if indexed.get(site) != version]
        gone = [site for site in indexed if site not in wanted]
        if as_json:
            print_json({"due": due, "gone": gone})
        else:
            message = f"{pluralize(len(due), 'site')} would be indexed, {len(gone)} removed"
            click.echo(dry_run_prefix(dry_run, message))
        return
    with ProgressReporter(quiet) as progress:
        result = index.update(wanted, wait=_WAIT, forget_others=True, progress=progress.callback("sites"))
    _report(result, as_json)


@search_index.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether the index exists, and which sites it does not have in their current version.

    \b
    Examples:
      clerk search-index status --json
    """
    index = _index()
    published = current_versions(index.publish_dir) if index.publish_dir.is_dir() else {}
    indexed = index.versions() if index.exists else {}
    due = sorted(site for site, version in published.items() if indexed.get(site) != version)
    if as_json:
        print_json({"exists": index.exists, "folder": index.folder, "indexed": len(indexed), "due": due})
    elif not index.exists:
        click.echo("There is no search index: every search opens each archive. `clerk search-index build` makes one.")
    elif due:
        names = ", ".join(due[:10]) + (" …" if len(due) > 10 else "")
        click.echo(f"{index.folder}: {len(published) - len(due):,} of {pluralize(len(published), 'site')} are current.")
        click.echo(f"Not current, searched in their archives: {names}. `clerk search-index update` indexes them.")
    else:
        click.echo(f"{index.folder}: {pluralize(len(published), 'site')}, all current.")


@search_index.command()
@dry_run_option
def remove(dry_run: bool) -> None:
    """Delete the index. Searches open each archive again.

    \b
    Examples:
      clerk search-index remove
    """
    index = _existing_index()
    if not dry_run:
        index.remove()
    click.echo(dry_run_prefix(dry_run, f"{index.folder.parent}: deleted"))


def _index() -> SearchIndex:
    require_tantivy()
    return SearchIndex(config.load().publish_dir)


def _existing_index() -> SearchIndex:
    index = _index()
    if not index.exists:
        raise click.UsageError("There is no search index. `clerk search-index build` makes one.")
    return index


def _report(result: UpdateResult, as_json: bool) -> None:
    if as_json:
        print_json({"updated": result.updated, "removed": result.removed, "broken": result.broken})
    else:
        pages = sum(result.updated.values())
        removed = f", {pluralize(len(result.removed), 'site')} removed" if result.removed else ""
        click.echo(f"{pluralize(len(result.updated), 'site')} indexed, with {pluralize(pages, 'page')}{removed}.")
    for site, problem in result.broken.items():
        info(f"The archive of {site} cannot be read ({problem}): check it with `clerk verify --full`.")
    if result.broken:
        click.get_current_context().exit(EXIT_FAILURE)
