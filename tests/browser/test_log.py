"""The log on a phone."""

from __future__ import annotations

from playwright.sync_api import Browser

from clerk.db.connection import connect_to
from tests.browser.conftest import Installation, open_window

_ROWS = """
with repair as (
    insert into reconcile_log (reconciliation, at, kind, subdomain, stage, found, done, why)
    select gen_random_uuid(), now() - n * interval '1 minute', 'lease', 'town-' || n, 'ocr',
           'job ' || n || ' has no live worker', 'job ' || n || ' is tried again', 'its lease expired'
    from generate_series(1, 120) n
), action as (
    insert into operator_actions (at, actor, via, action, subdomain, detail)
    select now() - n * interval '2 minutes', 'anna', 'cli', 'retry', 'town-' || n, '{"stage": "ocr", "units": 2}'
    from generate_series(1, 120) n
)
insert into reconcile_runs (reconciliation, started_at, ended_at, actor, via, found, repaired, failed)
select gen_random_uuid(), now() - n * interval '15 minutes', now() - n * interval '15 minutes', 'worker', 'cli', 1, 1, 0
from generate_series(1, 120) n
"""
_MAX_HEIGHT = 8000


def test_the_log_is_not_endless_on_a_phone(browser: Browser, installation: Installation) -> None:
    with connect_to(installation.database) as connection:
        connection.execute(_ROWS)
    size = {"width": 390, "height": 844}
    with installation.dashboard() as url, open_window(browser, url, viewport=size) as window:
        for path in ("/log", "/log?show=actions", "/log?show=repairs", "/log?show=reconciliations"):
            page = window.open(path)
            height = page.evaluate("document.documentElement.scrollHeight")
            assert height < _MAX_HEIGHT, path
