"""Plugins of legacy clerk: `fetch_events()`, plugin classes, and hooks that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from textwrap import dedent

import pytest

from clerk.documents.repository import DocumentRef, FetchOutcome
from clerk.errors import InvalidPluginResult
from clerk.plugins import manager
from clerk.plugins.legacy import UNSUPPORTED_HOOKS
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.client import RateLimitedClient
from tests.sources.conftest import HttpClient, Town, http, pool, town, web  # noqa: F401 (fixtures)
from tests.sources.web import Reply, Request, Web, pdf

PLUGIN = """
    import json
    from clerk import Fetcher, hookimpl

    class Portal(Fetcher):
        def child_init(self):
            self.address = json.loads(self.site["extra"])["address"]

        def fetch_events(self):
            found = self.request("POST", self.address + "/list", data={"year": str(self.start_year or 2024)})
            assert found.status_code == 200 and "json" in found.headers["content-type"]
            for event in found.json():
                meeting = self.simplified_meeting_name(event["body"])
                if not self.check_if_exists(meeting, event["day"], "minutes"):
                    self.assert_fetch_dirs()
                    self.fetch_and_write_pdf(
                        self.address + event["file"], "minutes", meeting, event["day"], {"X-Portal": "yes"}
                    )
                    self.total_minutes += 1
                self.total_events += 1
            return self.total_events, self.total_minutes

    class Events:
        def fetch_events(self):
            return [{"url": "https://town.example/1.pdf", "meeting": "Council", "date": "2024-03-05", "kind": "agenda"}]

    class Files(Fetcher):
        def fetch_events(self):
            open(self.minutes_output_dir + "/1.pdf", "wb")

    class Broken:
        def fetch_events(self):
            return [{"meeting": "Council"}]

    class Current(Fetcher):
        async def documents(self):
            yield None

        def fetch_events(self):
            pass

    class PortalPlugin:
        @hookimpl
        def fetcher_class(self, label):
            return {"portal": Portal, "events": Events, "files": Files, "broken": Broken, "current": Current}.get(label)

        @hookimpl
        def register_job_types(self):
            return {"finance-etl": None}

        @hookimpl
        def register_worker_functions(self):
            return {}

        @hookimpl
        def get_data_processors(self, data_type):
            return None
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[manager.Plugins]:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "old.py").write_text(dedent(PLUGIN))
    manager._load.cache_clear()
    yield manager._load(tmp_path / "plugins")
    manager._load.cache_clear()


def resolve(plugins: manager.Plugins, label: str) -> type[Fetcher]:
    name, fetcher = plugins.resolve("fetcher_class", label, Fetcher)
    assert name == "old"
    assert isinstance(fetcher, type)
    return fetcher


def test_each_unsupported_hook_is_one_problem_and_the_others_are_called(plugins: manager.Plugins) -> None:
    assert [problem.error for problem in plugins.problems] == [
        f"the hook {hook} of legacy clerk is not called: {instead}" for hook, instead in UNSUPPORTED_HOOKS.items()
    ]
    assert list(UNSUPPORTED_HOOKS) == ["register_job_types", "register_worker_functions", "get_data_processors"]
    assert all(" post_compilation" in instead for instead in UNSUPPORTED_HOOKS.values())
    assert (plugins.loaded[-1].name, plugins.loaded[-1].hooks) == ("old", ("fetcher_class",))
    assert resolve(plugins, "portal") is resolve(plugins, "portal")


def test_a_legacy_fetcher_lists_and_clerk_downloads(web: Web, town: Town, plugins: manager.Plugins) -> None:  # noqa: F811
    web.serve_json(
        "/list",
        [
            {"body": "City Council & Board", "day": "2024-03-05", "file": "/1.pdf"},
            {"body": "Library", "day": "2024-03-06", "file": "/2.pdf"},
        ],
    )

    def respond(request: Request) -> Reply:
        return Reply(pdf(request.path)) if request.headers.get("x-portal") == "yes" else Reply(status=403)

    web.routes["/1.pdf"] = web.routes["/2.pdf"] = respond
    fetcher = resolve(plugins, "portal")
    for outcome in (FetchOutcome.NEW, FetchOutcome.UNCHANGED):
        result = town.fetch(fetcher, {"address": web.url})
        assert (result.outcomes[outcome], result.removed) == (2, 0)
    assert sorted(town.rows("kind, meeting, date::text")) == [
        ("minutes", "CityCouncilAndBoard", "2024-03-05"),
        ("minutes", "Library", "2024-03-06"),
    ]
    assert [request.form for request in web.requests if request.path == "/list"] == [{"year": "2024"}] * 2


def list_all(http: HttpClient, fetcher: type[Fetcher]) -> list[DocumentRef]:  # noqa: F811
    async def run(client: RateLimitedClient) -> list[DocumentRef]:
        return [ref async for ref in fetcher(Site("town", "Town", {}), client).documents()]

    return http.run(run)


def test_returned_events_are_documents(http: HttpClient, plugins: manager.Plugins) -> None:  # noqa: F811
    assert list_all(http, resolve(plugins, "events")) == [
        DocumentRef("https://town.example/1.pdf", "Council", date(2024, 3, 5), "agenda")
    ]


def test_what_a_legacy_fetcher_cannot_do_is_an_error(http: HttpClient, plugins: manager.Plugins) -> None:  # noqa: F811
    with pytest.raises(AttributeError, match=r"minutes_output_dir of legacy clerk is not available: pass each PDF to"):
        list_all(http, resolve(plugins, "files"))
    with pytest.raises(InvalidPluginResult, match="has no url"):
        list_all(http, resolve(plugins, "broken"))


def test_a_fetcher_with_documents_needs_no_adapter(plugins: manager.Plugins) -> None:
    assert resolve(plugins, "current").__name__ == "Current"
