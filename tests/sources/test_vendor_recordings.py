"""Recorded answers of vendors' portals: every document with its date, body and kind."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

from tests.sources.offline import list_offline
from tests.sources.test_fetchers import recording
from tests.sources.test_vendors import play
from tests.sources.vendor_answers import EMPTY
from tests.sources.web import Reply, Web


@dataclass(frozen=True)
class Recording:
    file: str
    counts: dict[str, int]
    """Number of documents by kind."""
    first: date
    last: date
    bodies: dict[str, int]
    """Number of documents of some of the bodies."""
    extra: dict[str, Any] = field(default_factory=dict)


RECORDED = {
    "granicus": Recording(
        "granicus-view-publisher.html",
        {"agenda": 136},
        date(2013, 9, 19),
        date(2022, 2, 17),
        {"Planning Commission Meeting": 133, "Special Planning Commission Meeting": 1},
    ),
    "civicclerk": Recording(
        "civicclerk-events.json",
        {"agenda": 1, "packet": 1},
        date(2026, 4, 15),
        date(2026, 4, 15),
        {"City Council": 2},
    ),
    "boarddocs": Recording(
        "boarddocs-meetings-list.json",
        {"agenda": 258},
        date(2012, 10, 8),
        date(2024, 2, 19),
        {"School Board": 258},
        {"kinds": ["agenda"]},
    ),
    "iqm2": Recording(
        "iqm2-calendar.html",
        {"agenda": 45, "packet": 45, "minutes": 16},
        date(2022, 1, 10),
        date(2022, 8, 25),
        {
            "City Council": 42,
            "Planning Commission": 30,
            "Parks and Recreation Commission": 18,
            "Parking and Traffic Commission": 16,
        },
    ),
    "municode": Recording(
        "municode-meetings.html",
        {"agenda": 10, "packet": 10, "minutes": 8},
        date(2022, 4, 18),
        date(2022, 8, 1),
        {"City Council Meeting": 28},
    ),
    "novusagenda": Recording(
        "novusagenda-meetings-general.html",
        {"agenda": 4, "minutes": 2},
        date(2022, 7, 12),
        date(2022, 9, 27),
        {"Council Meeting": 6},
    ),
    "escribe": Recording(
        "escribe-calendar-meetings.json",
        {"agenda": 3},
        date(2025, 12, 17),
        date(2025, 12, 17),
        {"Board of Ethics Regular Meeting": 3},
    ),
    "civicweb": Recording(
        "civicweb-meetings.json",
        {"agenda": 1, "minutes": 1},
        date(2024, 8, 26),
        date(2024, 8, 26),
        {"Work Session": 2},
    ),
    "onbase": Recording(
        "onbase-meetings-search.html",
        {"agenda": 7},
        date(2019, 7, 1),
        date(2019, 9, 16),
        {"City Council Meeting": 7},
    ),
    "simbli": Recording(
        "simbli-meeting-listing.json",
        {"agenda": 49},
        date(2023, 4, 17),
        date(2024, 7, 11),
        {"Executive Session, Work Session, Community Input Session & Business Meeting": 16},
    ),
    "boardbook": Recording(
        "boardbook-organization.html",
        {"agenda": 47, "minutes": 42},
        date(2021, 8, 26),
        date(2026, 5, 5),
        {"Joint Property Tax Advisory Committee (JPTAC)": 3},
    ),
}


@pytest.mark.parametrize("label", RECORDED)
def test_a_recorded_listing(web: Web, label: str) -> None:
    expected = RECORDED[label]
    body = recording(expected.file).encode()
    served = play(web, label)
    # A server answers one window of dates with the recording, and the others with an empty listing.
    windows = iter([Reply(body)])
    web.routes[served.listing] = lambda _: next(windows, Reply(EMPTY[label].encode()))
    if label == "civicweb":
        for number in (entry["Id"] for entry in json.loads(body)):
            documents = recording("civicweb-meeting-documents.json") if number == 10669 else "[]"
            web.routes[f"{served.listing}/{number}/meetingDocuments"] = Reply(documents.encode())
    since = {"since": f"{expected.first.year}-01-01", "kinds": ["agenda", "minutes", "packet"]}
    refs = list_offline(label, {**served.extra, **since, **expected.extra}).refs
    assert Counter(ref.kind for ref in refs) == expected.counts
    days = [ref.date for ref in refs if ref.date]
    assert (min(days), max(days), len(days)) == (expected.first, expected.last, len(refs))
    bodies = Counter(ref.meeting for ref in refs)
    assert {body: bodies[body] for body in expected.bodies} == expected.bodies
