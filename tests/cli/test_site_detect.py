"""`clerk site detect`, `add --url`, `check` and `import` of towns by address, against portals of a local web server."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from clerk.cli import cli, site_detect
from clerk.plugins import manager
from clerk.sources.site_validation import subdomain_of
from tests.conftest import Databases
from tests.sources.vendor_sites import EARLIER, PORTALS, Portal, Server
from tests.sources.web import Reply, Web, pdf, run_server

Clerk = Callable[..., Result]
SINCE = json.dumps({"since": f"{EARLIER.year}-01-01"})


@pytest.fixture(scope="module")
def shared_database(server: str, template: str) -> Iterator[str]:
    databases = Databases(server)
    yield databases.create(template)
    databases.drop_all()


@pytest.fixture
def connection(shared_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute("truncate sites cascade")
        yield connection


@pytest.fixture
def web() -> Iterator[Web]:
    with run_server() as web:
        yield web


@pytest.fixture
def clerk(
    shared_database: str, connection: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Clerk]:
    for name, value in {
        "DATABASE_URL": shared_database,
        "STORAGE_DIR": str(tmp_path / "storage"),
        "CLERK_ALLOW_LOOPBACK": "yes",
        "CLERK_HOST_INTERVAL": "0",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CLERK_PLUGINS_DIR", raising=False)
    manager._load.cache_clear()
    yield lambda *arguments, **options: CliRunner().invoke(cli, arguments, **options)
    manager._load.cache_clear()


@pytest.fixture
def portal(web: Web) -> Portal:
    return PORTALS["iqm2"](Server(web, "iqm2", pdf))


@pytest.fixture
def town(web: Web, portal: Portal) -> str:
    """The first page of a town that embeds its portal."""
    web.serve_html("/town", f"<h1>Springfield</h1><iframe src='{portal.listing}'></iframe>")
    return f"{web.url}/town"


def sites(connection: psycopg.Connection[Any]) -> dict[str, tuple[str, Any]]:
    rows = connection.execute("select subdomain, scraper, extra from sites order by 1").fetchall()
    return {subdomain: (scraper, json.loads(extra)) for subdomain, scraper, extra in rows}


def test_an_unknown_host(clerk: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the name server: what the one of this machine answers is not known."""

    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    added = clerk("site", "add", "nope", "--url", "https://town.example/", "--yes")
    assert str(added.exception) == "there is no host town.example: check the address."
    assert clerk("site", "detect", "town.example").stdout == "There is no host town.example: check the address.\n"


def test_detect_shows_vendor_settings_confidence_and_evidence(clerk: Clerk, town: str, web: Web) -> None:
    shown = clerk("site", "detect", town)
    assert shown.exit_code == 0
    assert "iqm2 (certain)" in shown.stdout
    assert f'{{"portal": "{web.url}/iqm2"}}' in shown.stdout
    assert "has the markup of IQM2" in shown.stdout
    result = json.loads(clerk("site", "detect", town, "--json").stdout)
    assert (result["vendor"], result["extra"], result["confidence"]) == (
        *("iqm2", {"portal": f"{web.url}/iqm2"}),
        "certain",
    )


def test_detect_of_a_known_host_needs_neither_network_nor_database(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/none")
    shown = clerk("site", "detect", "springfield.iqm2.com", "--json")
    assert json.loads(shown.stdout)["extra"] == {"client": "springfield"}


def test_without_a_database_nothing_is_created(
    clerk: Clerk, town: str, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run, and a list, needs no database: a source is listed with the rate limit of this process."""
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("STORAGE_DIR")
    file = tmp_path / "towns.csv"
    file.write_text(f"name,url\nAlpha,{town}\n")
    iqm2 = ("site", "add", "alpha", "--scraper", "iqm2", "--portal", f"{web.url}/iqm2")
    for options in (
        ("site", "detect", town),
        ("site", "add", "alpha", "--url", town, "--dry-run"),
        (*iqm2, "--dry-run"),
        (*iqm2, "--dry-run", "--json"),
        ("new", "alpha", "--yes", "--dry-run"),
        ("site", "import", str(file), "--dry-run"),
        ("site", "list"),
        ("alert", "list"),
    ):
        result = clerk(*options)
        assert result.exit_code == 0, (options, result.exception)
        assert list(tmp_path.iterdir()) == [file], options
    planned = json.loads(clerk(*iqm2, "--dry-run", "--cadence", "weekly", "--json").stdout)
    assert (planned["added"]["extra"], planned["added"]["cadence"]) == ({"portal": f"{web.url}/iqm2"}, "weekly")
    assert planned["listing"]["documents"] > 0


def test_detect_refuses_what_is_no_address(clerk: Clerk) -> None:
    assert "notanaddress is not an address of a web page" in str(clerk("site", "detect", "notanaddress").exception)


def test_detect_of_an_unknown_page_says_what_was_tried_and_exits_with_3(clerk: Clerk, web: Web) -> None:
    web.serve_html("/", "<h1>Shop</h1>")
    shown = clerk("site", "detect", f"{web.url}/")
    assert shown.exit_code == 3
    assert "Unknown" in shown.stdout
    assert f"{web.url}/: a page: no vendor recognised" in shown.stdout
    assert json.loads(clerk("site", "detect", f"{web.url}/", "--json").stdout)["vendor"] is None


def test_add_by_address_shows_the_listing_and_adds_the_site(
    clerk: Clerk, town: str, portal: Portal, web: Web, connection: psycopg.Connection[Any]
) -> None:
    tried = clerk("site", "add", "springfield", "--url", town, "--extra", SINCE, "--dry-run")
    assert tried.exit_code == 0, tried.output
    assert sites(connection) == {}
    listed = portal.documents | portal.pages
    days = [day for _, day, _ in listed]
    assert f"{len(listed)}: " in tried.stdout
    assert f"{min(days)} to {max(days)}" in tried.stdout
    for meeting, *_ in listed:
        assert meeting in tried.stdout
    added = clerk("site", "add", "springfield", "--url", town, "--extra", SINCE, "--yes", "--json")
    result = json.loads(added.stdout)
    assert result["detected"]["vendor"] == "iqm2"
    assert result["listing"]["documents"] == len(listed)
    assert sites(connection) == {
        "springfield": ("iqm2", {"portal": f"{web.url}/iqm2", "since": f"{EARLIER.year}-01-01"})
    }
    assert not any(path.endswith("FileOpen.aspx") for path in web.paths())


def test_the_source_is_asked_again_if_it_cannot_be_used(
    clerk: Clerk,
    town: str,
    web: Web,
    connection: psycopg.Connection[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clerk.cli.site_prompt._is_terminal", lambda: True)
    monkeypatch.setattr(site_detect, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    (tmp_path / "empty").mkdir()
    web.serve_html("/nothing", "<p>Welcome</p>")
    answers = ("Springfield", "", f"{web.url}/nothing", str(tmp_path / "empty"), town, "y")
    added = clerk("site", "add", "--url", f"{web.url}/missing", input="\n".join(answers))
    assert added.exit_code == 0, added.output
    assert added.stderr.count("Where are the documents?") == 3
    assert added.stderr.count("Name of the town") == 1
    assert "clerk: the address could not be read: " in added.stderr
    assert "no vendor was recognised" in added.stderr
    assert "empty has no documents: it is empty" in added.stderr
    assert sites(connection)["springfield"][0] == "iqm2"
    assert connection.execute("select name from sites").fetchall() == [("Springfield",)]

    named = clerk("site", "add", "other", "--url", f"{web.url}/nothing", input=town)
    assert "no vendor was recognised" in str(named.exception), "nothing was asked before"


def test_add_by_address_asks_on_a_terminal_and_refuses_without_one(
    clerk: Clerk, town: str, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = clerk("site", "add", "springfield", "--url", town)
    assert refused.exit_code == 2
    assert "There is no terminal to ask on. Give --yes" in refused.stderr

    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

    class System:
        stdin = Terminal

    monkeypatch.setattr(site_detect, "sys", System)
    arguments = ("site", "add", "springfield", "--url", town, "--extra", SINCE)
    refused = clerk(*arguments, input="n\n")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (1, "clerk: springfield was not added.")
    assert sites(connection) == {}
    assert clerk(*arguments, input="y\n").exit_code == 0
    assert [*sites(connection)] == ["springfield"]
    assert "there is already a site springfield" in str(clerk(*arguments, "--yes").exception)


def test_add_by_address_adds_nothing_that_cannot_be_listed(
    clerk: Clerk, town: str, portal: Portal, web: Web, connection: psycopg.Connection[Any]
) -> None:
    web.serve_html(portal.listing, "<script src='/lib/MinuteTraq.js'></script>")
    failed = clerk("site", "add", "springfield", "--url", town, "--yes")
    assert failed.exit_code == 1
    assert "could not be listed (SourceUnreadable: no [id$=pnlMeetings]" in str(failed.exception)
    web.serve_html(portal.listing, "<script src='/lib/MinuteTraq.js'></script><div id='pnlMeetings'></div>")
    assert "lists no documents" in str(clerk("site", "add", "springfield", "--url", town, "--yes").exception)
    unread = clerk("site", "add", "x", "--url", f"{web.url}/none", "--yes")
    assert f"the address could not be read: {web.url}/none: the server returned status 404" in str(unread.exception)
    web.serve_html("/shop", "<h1>Shop</h1>")
    assert "no vendor was recognised" in str(clerk("site", "add", "x", "--url", f"{web.url}/shop", "--yes").exception)
    assert sites(connection) == {}


def test_a_town_without_a_vendor_whose_pages_link_to_documents(
    clerk: Clerk, web: Web, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    web.serve_html("/", "<a href='/records'>Agendas and minutes</a>")
    web.serve_html("/records", "<h2>City Council</h2><a href='/1.pdf'>Minutes of March 5, 2024</a>")
    shown = clerk("site", "detect", f"{web.url}/")
    assert shown.exit_code == 3
    assert f"the page {web.url}/records links to 1 document" in shown.stdout
    assert f"Add it: clerk site add NAME --url '{web.url}/'" in shown.stdout
    added = clerk("site", "add", "springfield", "--url", f"{web.url}/", "--yes")
    assert added.exit_code == 0, added.output
    assert sites(connection) == {"springfield": ("links", {"pages": f"{web.url}/records"})}
    monkeypatch.delenv("CLERK_ALLOW_LOOPBACK")
    assert "Unknown: the address could not be read." in clerk("site", "detect", f"{web.url}/").stdout
    refused = clerk("site", "add", "x", "--url", f"{web.url}/", "--yes")
    assert "the address could not be read: 127.0.0.1 is not a public address" in str(refused.exception)


def test_a_dry_run_with_settings_that_list_nothing_fails(clerk: Clerk, web: Web) -> None:
    web.serve_html("/", "<a href='/records'>Agendas and minutes</a>")
    empty = clerk("site", "add", "x", "--scraper", "links", "--pages", f"{web.url}/", "--dry-run")
    assert empty.exit_code == 1
    assert str(empty.exception).startswith("x: links lists no documents with these settings: check the addresses")


def test_a_page_with_links_is_listed_before_it_is_added(
    clerk: Clerk, web: Web, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(name: str, path: str, *options: str, answer: str | None = None) -> Result:
        return clerk("site", "add", name, "--scraper", "links", "--pages", f"{web.url}{path}", *options, input=answer)

    web.serve_html("/", "<a href='/records'>Agendas and minutes</a>")
    web.serve_html("/records", "<a href='/council-2024-03-05.pdf'>Council minutes 2024-03-05</a>")
    assert str(add("x", "/", "--yes").exception).startswith("x: links lists no documents with these settings")
    assert "DownloadRefused" in str(add("x", "/missing", "--yes").exception)
    assert "Give --yes to add the site" in add("x", "/records").stderr
    monkeypatch.setattr(site_detect, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    assert add("x", "/records", answer="n\n").stderr.endswith("clerk: x was not added.\n")
    assert sites(connection) == {}

    asked = add("x", "/records", answer="y\n")
    assert (asked.exit_code, "documents  1" in asked.stdout) == (0, True), asked.output
    assert json.loads(add("y", "/records", "--yes", "--json").stdout)["listing"]["documents"] == 1
    assert add("z", "/", "--no-check").exit_code == 0
    unreached = clerk("site", "add", "down", "--pages", "http://127.0.0.1:1/", "--yes")
    assert (unreached.exit_code, "clerk: warning: down: links could not be listed" in unreached.stderr) == (0, True)
    assert set(sites(connection)) == {"x", "y", "z", "down"}


def test_one_of_several_systems_is_chosen_by_scraper(
    clerk: Clerk, portal: Portal, web: Web, connection: psycopg.Connection[Any]
) -> None:
    web.serve_html(
        "/town",
        f"<iframe src='{portal.listing}'></iframe><iframe src='https://x.novusagenda.com/agendapublic/'></iframe>",
    )
    arguments = ("site", "add", "springfield", "--url", f"{web.url}/town", "--extra", SINCE, "--yes")
    assert "leads to several sources" in str(clerk(*arguments).exception)
    assert clerk(*arguments, "--scraper", "iqm2").exit_code == 0
    assert sites(connection)["springfield"][0] == "iqm2"


def test_check_says_what_a_run_would_find_or_which_error(
    clerk: Clerk, portal: Portal, web: Web, connection: psycopg.Connection[Any]
) -> None:
    extra = json.dumps({**portal.extra, "since": f"{EARLIER.year}-01-01"})
    connection.execute("insert into sites (subdomain, scraper, extra) values ('springfield', 'iqm2', %s)", [extra])
    result = json.loads(clerk("site", "check", "springfield", "--json").stdout)
    assert result["ok"] is True
    assert result["listing"]["documents"] == len(portal.documents | portal.pages)
    assert "documents" in clerk("site", "check", "springfield").stdout
    assert connection.execute("select count(*) from content_items").fetchone() == (0,)
    web.routes[portal.listing] = Reply(status=404)
    failed = clerk("site", "check", "springfield")
    assert failed.exit_code == 1
    assert "springfield: DownloadRefused:" in failed.stdout
    assert "status 404" in failed.stdout
    result = json.loads(clerk("site", "check", "springfield", "--json").stdout)
    assert (result["ok"], result["error"]["code"]) == (False, "DownloadRefused")


def test_check_stops_at_the_time_limit(clerk: Clerk, portal: Portal, connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "insert into sites (subdomain, scraper, extra) values ('springfield', 'iqm2', %s)", [json.dumps(portal.extra)]
    )
    result = json.loads(clerk("site", "check", "springfield", "--json", "--time-limit", "0.000001").stdout)
    assert (result["ok"], result["listing"]["complete"]) == (True, False)


def test_import_adds_what_is_certain_and_reports_the_rest(
    clerk: Clerk, town: str, web: Web, connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    web.serve_html("/linked", "<a href='https://shelbyville.iqm2.com/Citizens/'>Agendas</a>")
    web.serve_html("/shop", "<h1>Shop</h1>")
    towns = tmp_path / "towns.csv"
    towns.write_text(
        "name,state,url,kind\n"
        f"Springfield,IL,{town},city\n"
        "Springfield,MA,https://springfieldma.civicweb.net/Portal/,city\n"
        f"Shelbyville,IL,{web.url}/linked,\n"
        f"Ogdenville,IL,{web.url}/shop,town\n"
        "St. Paul,MN,,city\n"
    )
    tried = json.loads(clerk("site", "import", str(towns), "--dry-run", "--json").stdout)
    assert tried["counts"] == {"added": 2, "uncertain": 1, "unknown": 1, "invalid": 1}
    assert sites(connection) == {}
    done = clerk("site", "import", str(towns))
    assert done.exit_code == 1
    assert {subdomain: scraper for subdomain, (scraper, _) in sites(connection).items()} == {
        "springfield-il": "iqm2",
        "springfield-ma": "civicweb",
    }
    assert "shelbyville" in done.stdout
    assert "links to https://shelbyville.iqm2.com/Citizens/" in done.stdout
    assert "2 added, 1 uncertain, 1 unknown, 1 invalid" in done.stdout
    web.requests.clear()
    again = json.loads(clerk("site", "import", str(towns), "--accept", "likely", "--json").stdout)
    assert again["counts"] == {"exists": 2, "added": 1, "unknown": 1, "invalid": 1}
    assert "/town" not in web.paths()


def test_commands_request_a_source_with_the_limits_of_its_site(
    clerk: Clerk, town: str, portal: Portal, web: Web, connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    agent = "Mozilla/5.0 (X11; Linux x86_64)"
    extra = {"since": f"{EARLIER.year}-01-01", "user_agent": agent}

    def agents() -> set[str]:
        seen = {request.headers["user-agent"] for request in web.requests}
        web.requests.clear()
        return seen

    added = clerk("site", "add", "springfield", "--url", town, "--yes", "--extra", json.dumps(extra))
    assert (added.exit_code, agents()) == (0, {agent})
    assert sites(connection)["springfield"][1]["user_agent"] == agent
    assert (clerk("site", "check", "springfield").exit_code, agents()) == (0, {agent})
    recorded = clerk("plugins", "record", "springfield", "--to", str(tmp_path / "recording"))
    assert (recorded.exit_code, agents()) == (0, {agent})
    towns = tmp_path / "towns.csv"
    towns.write_text(
        f'name,state,url,extra\nShelbyville,IL,{town},"{json.dumps(extra).replace(chr(34), 2 * chr(34))}"\n'
    )
    assert (clerk("site", "import", str(towns)).exit_code, agents()) == (0, {agent})
    assert sites(connection)["shelbyville"][1] == {**extra, "portal": portal.extra["portal"]}
    refused = clerk("site", "add", "other", "--url", town, "--yes", "--extra", '{"user_agent": "\\n"}')
    assert (refused.exit_code, agents()) == (1, set())
    assert "extra 'user_agent' must be text" in str(refused.exception)

    connection.execute("update sites set extra = (extra::jsonb || %s)::text", [json.dumps({"budget": {"requests": 1}})])
    listing = json.loads(clerk("site", "check", "springfield", "--json").stdout)["listing"]
    assert (listing["complete"], "at most 1 requests per run" in listing["stopped"]) == (False, True)
    web.routes["/robots.txt"] = Reply(b"User-agent: clerk\nDisallow: /iqm2")
    connection.execute("update sites set extra = (extra::jsonb - 'budget')::text")
    assert "RobotsDisallowed" in clerk("site", "check", "springfield").stdout
    web.requests.clear()
    detected = json.loads(clerk("site", "detect", f"{web.url}{portal.listing}", "--json").stdout)
    assert "robots.txt" in detected["tried"][0]["result"]
    assert portal.listing not in web.paths()


def test_import_with_addresses_refuses_unknown_columns_and_update(clerk: Clerk, tmp_path: Path) -> None:
    towns = tmp_path / "towns.csv"
    towns.write_text("name,website,url\nSpringfield,x,https://springfield.iqm2.com\n")
    assert "unknown columns: website" in str(clerk("site", "import", str(towns)).exception)
    assert clerk("site", "import", str(towns), "--update").exit_code == 2


@pytest.mark.parametrize(
    ("name", "subdomain"),
    [
        ("Springfield", "springfield"),
        ("St. Paul", "st-paul"),
        ("Cañon City", "canon-city"),
        ("Coeur d'Alene", "coeur-dalene"),
        ("x" * 80, "x" * 63),
    ],
)
def test_a_subdomain_is_made_of_the_name(name: str, subdomain: str) -> None:
    assert subdomain_of(name) == subdomain
