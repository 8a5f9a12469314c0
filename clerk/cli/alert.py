"""`clerk alert`: saved searches whose new matches are sent by mail, webhook or feed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import click

from clerk import config
from clerk.cli.connection import Connection, open_if_any, open_pipeline
from clerk.cli.names import Group
from clerk.cli.output import dry_run_option, dry_run_prefix, info, json_option, print_json, show, table
from clerk.db.audit import whoami
from clerk.db.sites import require_site
from clerk.errors import EXIT_FAILURE, JobError
from clerk.humanize import pluralize
from clerk.saved_searches import deliveries, repository, trial
from clerk.saved_searches.validation import FREQUENCIES, check_destinations, check_name, check_query


@click.group(cls=Group)
def alert() -> None:
    """Get notified of new pages: add, list, test, pause, resume and remove alerts.

    An alert is a saved search. After each publication, the pages that are new or changed in it are matched with the
    search once, and the matches are sent by mail, webhook or Atom feed. Pages that were published before the alert
    was added are not sent.

    \b
    Examples:
      clerk alert add bike-lanes '"bike lanes"' --mail desk@example.org --frequency daily
      clerk alert list
      clerk alert test bike-lanes
    """


@alert.command()
@click.argument("name")
@click.argument("query", nargs=-1, required=True)
@click.option("--site", "sites", multiple=True, help="Only pages of this site; repeatable. Default: all sites.")
@click.option("--mail", "mails", multiple=True, metavar="ADDRESS", help="Send mails to this address; repeatable.")
@click.option(
    "--frequency",
    type=click.Choice(FREQUENCIES),
    default="immediate",
    show_default=True,
    help="How often mails are sent: for each publication, or as a digest.",
)
@click.option("--webhook", "webhooks", multiple=True, metavar="URL", help="Post signed JSON to this URL; repeatable.")
@click.option("--feed", is_flag=True, help="Publish an Atom feed. It is public: it shows the query and the matches.")
@dry_run_option
@json_option
def add(
    name: str,
    query: tuple[str, ...],
    sites: tuple[str, ...],
    mails: tuple[str, ...],
    frequency: str,
    webhooks: tuple[str, ...],
    feed: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add an alert. QUERY is written as for `clerk search`.

    NAME is 1 to 63 lower-case letters, digits and hyphens. The secret that signs the requests of a webhook is shown
    once, by this command: store it with the receiver.

    \b
    Examples:
      clerk alert add trees tree cutting --mail desk@example.org
      clerk alert add budget 'budget*' --site springfield --site shelbyville --feed
      clerk alert add zoning '"zoning variance"' --webhook https://example.org/hooks/clerk
    """
    settings = config.load()
    check_name(name)
    checked = check_query(" ".join(query))
    destinations = check_destinations(settings, mails, webhooks, feed, frequency)
    with open_pipeline(settings, create=not dry_run) as connection:
        for site in sites:
            require_site(connection, site)
        with connection.transaction(force_rollback=dry_run):
            secrets = repository.add(
                connection, name, checked, sorted(set(sites)) or None, destinations, whoami(), settings.digest_hour
            )
            row = _overview(connection, name)
    if as_json:
        print_json({"added": row, "dry_run": dry_run})
    else:
        click.echo(dry_run_prefix(dry_run, f"{name}: added ({'; '.join(row['destinations'])})"))
    if feed and not dry_run:
        path = f"/-/feeds/alerts/{name}.atom"
        where = f"{settings.public_url}{path}" if settings.public_url else f"{path} of `clerk serve`"
        info(f"A worker writes the feed within a minute: {where}")
    for url, secret in secrets.items() if not dry_run else ():
        # On standard error: the output of --json may be stored in a log.
        info(f"Secret of the webhook to {urlsplit(url).hostname}, shown only now: {secret}")
    if mails and settings.smtp_host is None:
        info("clerk: CLERK_SMTP_HOST is not set here. Mails are sent by workers of the queue delivery: set it there.")


@alert.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List the alerts. Mail addresses and webhook URLs are abbreviated.

    \b
    Examples:
      clerk alert list
      clerk alert list --json
    """
    with open_if_any(config.load()) as connection:
        rows = repository.read_overview(connection) if connection else []
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("No alerts. Add one with `clerk alert add`.")
    else:
        header = ("name", "query", "sites", "destinations", "matches", "waiting", "failed", "state")
        cells = [
            (
                row["name"],
                row["query"],
                ", ".join(row["sites"] or ["all"]),
                "; ".join(row["destinations"]),
                f"{row['matches']:,}",
                f"{row['waiting']:,}",
                f"{row['failed']:,}",
                "paused" if row["paused_at"] else "active",
            )
            for row in rows
        ]
        show(table(cells, header, right={4, 5, 6}))
        if any(row["failed"] for row in rows):
            click.echo("`clerk failures --stage delivery` shows why deliveries failed.")


@alert.command()
@click.argument("name")
@dry_run_option
@json_option
def test(name: str, dry_run: bool, as_json: bool) -> None:
    """Send a test message to each destination now, from this machine. It lists pages that match already.

    Nothing is recorded, and real deliveries are not affected. Exit code 1: a message could not be sent.

    \b
    Examples:
      clerk alert test bike-lanes --dry-run
      clerk alert test bike-lanes
    """
    settings = config.load()
    with open_pipeline(settings) as connection:
        saved_search = repository.find(connection, name)
        destinations = repository.read_destinations(connection, saved_search.id)
    notification, broken = trial.make_notification(settings, saved_search)
    results = {}
    problems = 0
    for destination in destinations:
        try:
            sent = not dry_run and trial.send(settings, notification, destination)
        except JobError as error:
            problems += 1
            results[destination.label] = f"{error.code}: {error}; {error.remedy.partition(';')[0]}."
        else:
            would = "not tested" if destination.channel == "feed" else "would be sent"
            results[destination.label] = "sent" if sent else would
    if as_json:
        pages = notification.as_json()["pages"]
        print_json({"name": name, "dry_run": dry_run, "results": results, "pages": pages, "unreadable": broken})
    else:
        pages = notification.matches
        click.echo(
            f"{name}: the search finds pages that are published on this machine, such as:"
            if pages
            else f"{name}: the search finds no page that is published on this machine."
        )
        for match in pages:
            click.echo(f"  {match.subdomain}: {match.meeting}, {match.date}, page {match.page}: {match.snippet}")
        for label, result in results.items():
            click.echo(dry_run_prefix(dry_run, f"{label}: {result}"))
        for subdomain, reason in broken.items():
            info(f"clerk: the archive of {subdomain} could not be searched ({reason}).")
    if problems:
        click.get_current_context().exit(EXIT_FAILURE)


@alert.command()
@click.argument("name")
@dry_run_option
@json_option
def pause(name: str, dry_run: bool, as_json: bool) -> None:
    """Stop deliveries. Matches are recorded meanwhile, and `clerk alert resume` delivers them.

    \b
    Examples:
      clerk alert pause bike-lanes
    """
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        changed = repository.pause(connection, name, whoami())
    _report(name, "paused", changed, "it is already paused", dry_run, as_json)


@alert.command()
@click.argument("name")
@dry_run_option
@json_option
def resume(name: str, dry_run: bool, as_json: bool) -> None:
    """Deliver matches again, and those of the time of the pause.

    \b
    Examples:
      clerk alert resume bike-lanes
    """
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        created = deliveries.resume(connection, name)
    done = "resumed" + (f", {pluralize(created, 'delivery', 'deliveries')} created" if created else "")
    _report(name, "resumed", created is not None, "it is not paused", dry_run, as_json, done)


@alert.command()
@click.argument("name")
@dry_run_option
@json_option
def remove(name: str, dry_run: bool, as_json: bool) -> None:
    """Remove an alert, with its matches and what is still to be delivered.

    \b
    Examples:
      clerk alert remove bike-lanes --dry-run
    """
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        repository.remove(connection, name)
    _report(name, "removed", True, "", dry_run, as_json)


def _overview(connection: Connection, name: str) -> dict[str, Any]:
    return next(row for row in repository.read_overview(connection) if row["name"] == name)


def _report(
    name: str, action: str, changed: bool, unchanged: str, dry_run: bool, as_json: bool, done: str | None = None
) -> None:
    if as_json:
        print_json({"name": name, action: changed, "dry_run": dry_run})
    elif changed:
        click.echo(dry_run_prefix(dry_run, f"{name}: {done or action}"))
    else:
        click.echo(f"{name}: nothing to do, {unchanged}.")
