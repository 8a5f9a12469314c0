"""Who may run actions, and how often. A rejected request changes neither the pipeline nor the record of actions."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.web import confirmation as tokens
from clerk.web.action_executor import ActionExecutor
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from tests.conftest import Url
from tests.web.test_actions import confirmation_page, form_of, submit, text_of

TOKEN = "open sesame"  # noqa: S105 (of the tests only)
PAUSE = "/actions/pause"


def basic(user: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{TOKEN}".encode()).decode()}


@pytest.fixture
def site(connection: psycopg.Connection) -> str:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    return "springfield"


@pytest.fixture
def unchanged(connection: psycopg.Connection, site: str) -> Iterator[None]:
    """After the test, nothing has changed."""
    yield
    assert connection.execute("select paused_at from sites").fetchall() == [(None,)]
    assert recorded_actions(connection) == []


def recorded_actions(connection: psycopg.Connection) -> list[tuple[str, ...]]:
    return connection.execute("select actor, via, action, subdomain from recent_actions").fetchall()


@pytest.fixture
def token_clients(pool: ReadOnlyPool, database: Url) -> Callable[[], TestClient]:
    """Makes browsers for one dashboard with a token and a public host name."""
    app = create_app(pool, TOKEN, executor=ActionExecutor(database))
    return lambda: TestClient(app, base_url="http://dashboard.example", follow_redirects=False)


def test_the_client_address_is_recorded(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    assert submit(action_client, "pause", site=site).status_code == 303
    assert recorded_actions(connection) == [("dashboard testclient", "dashboard", "pause", site)]


def test_the_user_name_is_recorded(
    token_clients: Callable[[], TestClient], connection: psycopg.Connection, site: str
) -> None:
    client = token_clients()
    client.headers |= basic("änna\x07" + "x" * 200)
    assert "done by änna" in text_of(confirmation_page(client, "pause", site=site))
    assert submit(client, "pause", site=site).status_code == 303
    ((actor, via, action, _),) = recorded_actions(connection)
    assert (actor, via, action) == ("änna" + "x" * 76, "dashboard", "pause")


@pytest.mark.parametrize("user", ["", " ", "\0", "\n"])
def test_an_empty_user_name_is_replaced_by_the_address(
    token_clients: Callable[[], TestClient], connection: psycopg.Connection, site: str, user: str
) -> None:
    client = token_clients()
    client.headers |= basic(user)
    assert submit(client, "pause", site=site).status_code == 303
    assert recorded_actions(connection)[0][0] == "dashboard testclient"


@pytest.mark.parametrize("action", ["update", "reconcile"])
def test_every_action_is_recorded(
    action_client: TestClient, connection: psycopg.Connection, site: str, action: str
) -> None:
    fields = {} if action == "reconcile" else {"site": site}
    assert submit(action_client, action, **fields).status_code == 303
    assert [row[2:] for row in recorded_actions(connection)] == [(action, fields.get("site"))]
    run = connection.execute("select max(run_id) from pipeline_runs").fetchone()
    assert connection.execute("select run_id from recent_actions").fetchone() == run


@pytest.mark.usefixtures("unchanged")
class TestRejected:
    def test_without_allow_actions(self, client: TestClient, action_client: TestClient, site: str) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        client.cookies = action_client.cookies
        assert client.get(f"{PAUSE}?site={site}").status_code == 404
        assert client.post(PAUSE, data=form).status_code == 404

    def test_only_post_executes(self, action_client: TestClient, site: str) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        assert action_client.get(PAUSE, params=form).status_code == 200
        assert action_client.head(PAUSE, params=form).status_code == 200
        assert action_client.put(PAUSE, data=form).status_code == 405
        assert action_client.delete(PAUSE).status_code == 405

    @pytest.mark.parametrize("token", [None, "", "x", "a.b.c", "a.1.c", "é.1.c", "..", "a.b.c.d", "a.nan.c"])
    def test_missing_or_forged_token(self, action_client: TestClient, site: str, token: str | None) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        form.pop("confirmation")
        response = action_client.post(PAUSE, data=form if token is None else form | {"confirmation": token})
        assert response.status_code == 403
        assert 'href="/actions/pause?site=springfield"' in response.text

    def test_changed_token(self, action_client: TestClient, site: str) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        nonce, until, signature = form["confirmation"].split(".")
        for changed in (f"{nonce}.{int(until) + 9}.{signature}", f"{nonce}x.{until}.{signature}"):
            assert action_client.post(PAUSE, data=form | {"confirmation": changed}).status_code == 403

    def test_another_browser(self, action_client: TestClient, site: str) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        action_client.cookies.clear()
        assert action_client.post(PAUSE, data=form).status_code == 403
        action_client.cookies.set("clerk-browser", "planted")
        assert action_client.post(PAUSE, data=form).status_code == 403

    def test_another_action(self, action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
        form = form_of(confirmation_page(action_client, "update", site=site))
        assert action_client.post(PAUSE, data=form).status_code == 403
        assert action_client.post("/actions/update", data=form | {"site": "shelbyville"}).status_code == 403
        assert action_client.post("/actions/update", data=form | {"stage": "ocr"}).status_code == 403

    def test_another_user(self, token_clients: Callable[[], TestClient], site: str) -> None:
        client = token_clients()
        client.headers |= basic("anna")
        form = form_of(confirmation_page(client, "pause", site=site))
        assert client.post(PAUSE, data=form, headers=basic("berta")).status_code == 403

    def test_another_process(self, action_client: TestClient, pool: ReadOnlyPool, database: Url, site: str) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        restarted = TestClient(create_app(pool, executor=ActionExecutor(database)), base_url="http://localhost")
        restarted.cookies = action_client.cookies
        assert restarted.post(PAUSE, data=form).status_code == 403

    def test_expired_token(self, action_client: TestClient, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tokens, "TTL", -1.0)
        assert (
            action_client.post(PAUSE, data=form_of(confirmation_page(action_client, "pause", site=site))).status_code
            == 403
        )

    @pytest.mark.parametrize(
        "headers",
        [
            *(
                {"Origin": origin}
                for origin in ("http://evil.example", "null", "http://localhost:9999", "", "x", "http://[")
            ),
            *(
                {"Origin": origin}
                for origin in ("http://localhost.evil.example", "http://evil.example?http://localhost")
            ),
            *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none", "", "odd")),
            {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
        ],
    )
    def test_cross_origin_post(self, action_client: TestClient, site: str, headers: dict[str, str]) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        response = action_client.post(PAUSE, data=form, headers=headers)
        assert (response.status_code, "came from another website" in response.text) == (403, True)

    @pytest.mark.parametrize("fetch_site", ["cross-site", "same-site"])
    def test_cross_site_link_to_the_confirmation_page(
        self, action_client: TestClient, site: str, fetch_site: str
    ) -> None:
        response = action_client.get(PAUSE, params={"site": site}, headers={"Sec-Fetch-Site": fetch_site})
        assert response.status_code == 403
        assert "confirmation" not in form_of(response)

    def test_without_the_access_token(self, token_clients: Callable[[], TestClient], site: str) -> None:
        client = token_clients()
        client.headers |= basic("anna")
        form = form_of(confirmation_page(client, "pause", site=site))
        del client.headers["Authorization"]
        assert client.get(PAUSE, params={"site": site}).status_code == 401
        assert client.post(PAUSE, data=form).status_code == 401
        assert client.post(PAUSE, data=form, headers={"Authorization": "Bearer wrong"}).status_code == 401

    def test_dns_rebinding(self, action_client: TestClient, site: str) -> None:
        form = form_of(confirmation_page(action_client, "pause", site=site))
        foreign = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert action_client.post(PAUSE, data=form, headers=foreign).status_code == 403

    @pytest.mark.parametrize(
        ("body", "status"), [(b"\xff", 400), (b"x", 400), (b"&".join([b"a=b"] * 99), 400), (b"a=" + b"b" * 20_000, 413)]
    )
    def test_invalid_form(self, action_client: TestClient, site: str, body: bytes, status: int) -> None:
        assert action_client.post(PAUSE, content=body).status_code == status

    def test_action_and_record_are_one_transaction(
        self, action_client: TestClient, connection: psycopg.Connection, site: str
    ) -> None:
        """If the record cannot be committed, the pause is rolled back."""
        connection.execute(
            """
            create function refuse() returns trigger language plpgsql as $$
            begin raise insufficient_privilege using message = 'not today'; end $$;
            create constraint trigger refuse after insert on operator_actions deferrable initially deferred
                for each row execute function refuse();
            """
        )
        form = form_of(confirmation_page(action_client, "pause", site=site))
        response = action_client.post(PAUSE, data=form)
        assert (response.status_code, "not today" in response.text) == (503, True)


def test_same_origin_post_is_accepted(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    form = form_of(confirmation_page(action_client, "pause", site=site))
    same_origin = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert action_client.post(PAUSE, data=form, headers=same_origin).status_code == 303
    assert len(recorded_actions(connection)) == 1


def test_behind_an_https_proxy(
    token_clients: Callable[[], TestClient], connection: psycopg.Connection, site: str
) -> None:
    client = token_clients()
    client.headers |= basic("anna") | {"X-Forwarded-Proto": "https"}
    page = confirmation_page(client, "pause", site=site)
    cookie = page.headers["Set-Cookie"].split("; ")
    assert cookie[0].startswith("__Host-clerk-browser=")
    assert {"Secure", "HttpOnly", "SameSite=strict", "Path=/"} < set(cookie)
    sent = {"Origin": "https://dashboard.example", "Cookie": cookie[0]}
    assert client.post(PAUSE, data=form_of(page), headers=sent).status_code == 303
    assert len(recorded_actions(connection)) == 1


def test_the_cookie_is_http_only_and_same_site(action_client: TestClient, site: str) -> None:
    cookie = confirmation_page(action_client, "pause", site=site).headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict"} < set(cookie)
    assert "Secure" not in cookie


def test_a_second_click_changes_nothing(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    form = form_of(confirmation_page(action_client, "update", site=site))
    first, second = (action_client.post("/actions/update", data=form) for _ in range(2))
    assert (first.status_code, second.status_code) == (303, 303)
    assert first.headers["Location"] == second.headers["Location"]
    assert connection.execute("select count(*) from pipeline_runs").fetchone() == (1,)
    assert len(recorded_actions(connection)) == 1
    connection.execute("update sites set run_id = null, current_stage = 'completed'")
    assert action_client.post("/actions/update", data=form).status_code == 303
    assert connection.execute("select count(*) from pipeline_runs").fetchone() == (1,)


def test_two_windows_of_one_browser(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    forms = [form_of(confirmation_page(action_client, action, site=site)) for action in ("pause", "update")]
    assert [
        action_client.post(f"/actions/{a}", data=f).status_code for a, f in zip(("pause", "update"), forms, strict=True)
    ] == [
        303,
        303,
    ]
    assert [row[2] for row in recorded_actions(connection)] == ["update", "pause"]


def test_a_message_in_the_url_is_not_shown(action_client: TestClient, client: TestClient, site: str) -> None:
    for browser in (action_client, client):
        assert 'class="notice"' not in browser.get(f"/sites/{site}?done=You+have+won").text


def test_a_redirect_never_leaves_the_dashboard(action_client: TestClient, connection: psycopg.Connection) -> None:
    """The name of the site is part of the URL."""
    name = "/evil.example/\\evil.example"
    connection.execute("insert into sites (subdomain) values (%s)", [name])
    response: httpx2.Response = submit(action_client, "pause", site=name)
    assert response.headers["Location"].startswith("/sites//evil.example/%5Cevil.example?done=")
