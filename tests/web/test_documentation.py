"""The pages of docs/ on the dashboard, to which alerts and messages refer."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import psycopg
from starlette.testclient import TestClient

from clerk.monitoring.alert import KINDS
from clerk.web.documentation import names, render_page
from tests.engine.helpers import add_site
from tests.web.conftest import fetch

RUNBOOK = "/docs/runbooks/alerts.md"


def anchors(page: str) -> list[str]:
    return re.findall(r' id="([^"]*)"', page)


def test_an_alert_links_its_section_of_the_runbook(client: TestClient, connection: psycopg.Connection) -> None:
    add_site(connection, "springfield", documents=0)
    connection.execute("select clerk_pause_site('springfield', 'anna')")
    assert f'<a href="{RUNBOOK}#site_paused">' in fetch(client, "/")
    page = fetch(client, RUNBOOK)
    assert "<h1>Monitoring alerts</h1>" in page
    assert '<h3 id="site_paused">site_paused</h3>' in page
    assert KINDS.keys() - set(anchors(page)) == set()
    assert client.get("/runbooks/alerts").url.path == RUNBOOK


def test_every_link_leads_somewhere(client: TestClient) -> None:
    pages: dict[str, str] = {f"/docs/{name}": fetch(client, f"/docs/{name}") for name in names()}
    assert len(pages) > 30
    links = {
        (path, urljoin(path, link))
        for path, page in pages.items()
        for link in re.findall(r'(?:href|src)="([^"]*)"', page)
        if not urlsplit(link).scheme
    }
    assert (RUNBOOK, "/docs/security.md") in links
    assert ("/docs/dashboard.md", "/docs/images/overview.png") in links
    for page, link in links:
        path, fragment = urldefrag(link)
        if path not in pages:
            assert client.get(path).status_code == 200, (page, link)
        assert not fragment or fragment in anchors(pages[path]), (page, link)


def test_every_page_keeps_the_rules_of_the_dashboard(client: TestClient) -> None:
    for name in names():
        page = fetch(client, f"/docs/{name}")
        assert [anchor for anchor, times in Counter(anchors(page)).items() if times > 1] == [], name
        assert " style=" not in page, f"{name}: Content-Security-Policy"
        assert "&lt;!--" not in page, f"{name}: a comment"


def test_what_is_no_page(client: TestClient) -> None:
    for path in ("nothing.md", "runbooks", "..%2fREADME.md", "%2e%2e/pyproject.toml", "..%2fpyproject.toml"):
        assert "There is no page at this address." in fetch(client, f"/docs/{path}", 404)


def test_markup_links_and_headings(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "docs" / "other.md").touch()
    (tmp_path / "docs" / "page.md").write_text(
        "# The `page`\n\n<script>alert(1)</script> <!-- generated --> [bad](javascript:alert)\n\n"
        "[code](../README.md) [gone](gone.md) [other](other.md#part) [same](#part) [site](https://example.org)\n\n"
        "## Part\n\n| number |\n| ---: |\n| 1 |\n\n## Part\n\n```sh\n<pre>\n```\n",
        encoding="utf-8",
    )
    page = render_page("page.md", tmp_path / "docs")
    assert page.title == "The page"
    assert "<h1" not in page.body
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt;  [bad](javascript:alert)</p>" in page.body
    assert (
        '<p>code gone <a href="other.md#part">other</a> <a href="#part">same</a> <a href="https://example.org">site</a>'
    ) in page.body
    assert re.findall('<h2 id="(.*?)">', page.body) == ["part", "part-1"]
    assert '<td data-label="number" class="number">1</td>' in page.body
    assert page.body.count("tabindex=") == 2, "the table and the example"
