"""Shortcuts for tests of saved searches."""

from __future__ import annotations

from datetime import date
from typing import Any

from clerk import config
from clerk.saved_searches import repository
from clerk.saved_searches.validation import check_destinations, check_query
from tests.publish.helpers import Town

BIKES = "The council discussed bike lanes on Main Street."
BUDGET = "The budget was adopted."
MAY = date(2024, 5, 7)
JUNE = date(2024, 6, 4)


def save_search(
    town: Town,
    name: str = "bikes",
    query: str = "bike lanes",
    *,
    sites: list[str] | None = None,
    mails: tuple[str, ...] = (),
    webhooks: tuple[str, ...] = (),
    feed: bool = False,
    frequency: str = "immediate",
) -> dict[str, str]:
    """Add a saved search; return the secrets of its webhooks by URL."""
    destinations = check_destinations(config.load(), mails, webhooks, feed, frequency)
    return repository.add(town.connection, name, check_query(query), sites, destinations, "test", 6)


def deliver(town: Town) -> None:
    """Run all waiting jobs of the queue delivery, those that wait for a retry included."""
    town.connection.execute("update procrastinate_jobs set scheduled_at = null where status = 'todo'")
    town.work_on("delivery")


def fields(town: Town, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
    return town.connection.execute(query, arguments or None).fetchall()
