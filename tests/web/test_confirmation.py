"""Who may act, and how often. Each refusal leaves the pipeline, and the record of what people did, as they were."""

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
from tests.web.test_actions import confirmation, confirmed, form_on, text_of

SESAME = "open sesame"
PAUSE = "/actions/pause"


def basic(user: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{SESAME}".encode()).decode()}


@pytest.fixture
def site(connection: psycopg.Connection) -> str:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    return "springfield"


@pytest.fixture
def untouched(connection: psycopg.Connection, site: str) -> Iterator[None]:
    """However often it was asked for, nothing came of it."""
    yield
    assert connection.execute("select paused_at from sites").fetchall() == [(None,)]
    assert recorded(connection) == []


def recorded(connection: psycopg.Connection) -> list[tuple[str, ...]]:
    return connection.execute("select actor, via, action, subdomain from recent_actions").fetchall()


@pytest.fixture
def guarded(reader: ReadOnlyPool, database: Url) -> Callable[[], TestClient]:
    """Browsers in front of one dashboard with a token, beyond this machine."""
    app = create_app(reader, SESAME, actor=ActionExecutor(database))
    return lambda: TestClient(app, base_url="http://dashboard.example", follow_redirects=False)


def test_recorded_with_the_address(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    assert confirmed(acting, "pause", site=site).status_code == 303
    assert recorded(connection) == [("dashboard testclient", "dashboard", "pause", site)]


def test_recorded_with_the_name(guarded: Callable[[], TestClient], connection: psycopg.Connection, site: str) -> None:
    client = guarded()
    client.headers |= basic("änna\x07" + "x" * 200)
    assert "done by änna" in text_of(confirmation(client, "pause", site=site))
    assert confirmed(client, "pause", site=site).status_code == 303
    ((actor, via, action, _),) = recorded(connection)
    assert (actor, via, action) == ("änna" + "x" * 76, "dashboard", "pause")


@pytest.mark.parametrize("user", ["", " ", "\0", "\n"])
def test_no_name_at_all(
    guarded: Callable[[], TestClient], connection: psycopg.Connection, site: str, user: str
) -> None:
    client = guarded()
    client.headers |= basic(user)
    assert confirmed(client, "pause", site=site).status_code == 303
    assert recorded(connection)[0][0] == "dashboard testclient"


@pytest.mark.parametrize("action", ["update", "reconcile"])
def test_every_action_is_recorded(acting: TestClient, connection: psycopg.Connection, site: str, action: str) -> None:
    fields = {} if action == "reconcile" else {"site": site}
    assert confirmed(acting, action, **fields).status_code == 303
    assert [row[2:] for row in recorded(connection)] == [(action, fields.get("site"))]
    run = connection.execute("select max(run_id) from pipeline_runs").fetchone()
    assert connection.execute("select run_id from recent_actions").fetchone() == run


@pytest.mark.usefixtures("untouched")
class TestRefused:
    def test_not_allowed_at_all(self, client: TestClient, acting: TestClient, site: str) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        client.cookies = acting.cookies
        assert client.get(f"{PAUSE}?site={site}").status_code == 404
        assert client.post(PAUSE, data=form).status_code == 404

    def test_looking_is_not_doing(self, acting: TestClient, site: str) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        assert acting.get(PAUSE, params=form).status_code == 200
        assert acting.head(PAUSE, params=form).status_code == 200
        assert acting.put(PAUSE, data=form).status_code == 405
        assert acting.delete(PAUSE).status_code == 405

    @pytest.mark.parametrize("token", [None, "", "x", "a.b.c", "a.1.c", "é.1.c", "..", "a.b.c.d", "a.nan.c"])
    def test_no_confirmation_or_one_made_up(self, acting: TestClient, site: str, token: str | None) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        form.pop("confirmation")
        answer = acting.post(PAUSE, data=form if token is None else form | {"confirmation": token})
        assert answer.status_code == 403
        assert 'href="/actions/pause?site=springfield"' in answer.text

    def test_longer_life_by_hand(self, acting: TestClient, site: str) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        nonce, until, signature = form["confirmation"].split(".")
        for changed in (f"{nonce}.{int(until) + 9}.{signature}", f"{nonce}x.{until}.{signature}"):
            assert acting.post(PAUSE, data=form | {"confirmation": changed}).status_code == 403

    def test_another_browser(self, acting: TestClient, site: str) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        acting.cookies.clear()
        assert acting.post(PAUSE, data=form).status_code == 403
        acting.cookies.set("clerk-visitor", "planted")
        assert acting.post(PAUSE, data=form).status_code == 403

    def test_another_action(self, acting: TestClient, connection: psycopg.Connection, site: str) -> None:
        form = form_on(confirmation(acting, "update", site=site))
        assert acting.post(PAUSE, data=form).status_code == 403
        assert acting.post("/actions/update", data=form | {"site": "shelbyville"}).status_code == 403
        assert acting.post("/actions/update", data=form | {"stage": "ocr"}).status_code == 403

    def test_another_name(self, guarded: Callable[[], TestClient], site: str) -> None:
        client = guarded()
        client.headers |= basic("anna")
        form = form_on(confirmation(client, "pause", site=site))
        assert client.post(PAUSE, data=form, headers=basic("berta")).status_code == 403

    def test_another_process(self, acting: TestClient, reader: ReadOnlyPool, database: Url, site: str) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        restarted = TestClient(create_app(reader, actor=ActionExecutor(database)), base_url="http://localhost")
        restarted.cookies = acting.cookies
        assert restarted.post(PAUSE, data=form).status_code == 403

    def test_too_old(self, acting: TestClient, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tokens, "VALID_FOR", -1.0)
        assert acting.post(PAUSE, data=form_on(confirmation(acting, "pause", site=site))).status_code == 403

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
    def test_from_another_site(self, acting: TestClient, site: str, headers: dict[str, str]) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        answer = acting.post(PAUSE, data=form, headers=headers)
        assert (answer.status_code, "came from another site" in answer.text) == (403, True)

    @pytest.mark.parametrize("where", ["cross-site", "same-site"])
    def test_led_to_the_question_by_another_site(self, acting: TestClient, site: str, where: str) -> None:
        answer = acting.get(PAUSE, params={"site": site}, headers={"Sec-Fetch-Site": where})
        assert answer.status_code == 403
        assert "confirmation" not in form_on(answer)

    def test_without_the_dashboards_token(self, guarded: Callable[[], TestClient], site: str) -> None:
        client = guarded()
        client.headers |= basic("anna")
        form = form_on(confirmation(client, "pause", site=site))
        del client.headers["Authorization"]
        assert client.get(PAUSE, params={"site": site}).status_code == 401
        assert client.post(PAUSE, data=form).status_code == 401
        assert client.post(PAUSE, data=form, headers={"Authorization": "Bearer wrong"}).status_code == 401

    def test_a_name_pointed_at_this_machine(self, acting: TestClient, site: str) -> None:
        form = form_on(confirmation(acting, "pause", site=site))
        foreign = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert acting.post(PAUSE, data=form, headers=foreign).status_code == 403

    @pytest.mark.parametrize(
        ("body", "status"), [(b"\xff", 400), (b"x", 400), (b"&".join([b"a=b"] * 99), 400), (b"a=" + b"b" * 20_000, 413)]
    )
    def test_not_a_form(self, acting: TestClient, site: str, body: bytes, status: int) -> None:
        assert acting.post(PAUSE, content=body).status_code == status

    def test_taken_back_with_its_record(self, acting: TestClient, connection: psycopg.Connection, site: str) -> None:
        """The pause and its row are one transaction: what keeps one of them from being kept keeps both."""
        connection.execute(
            """
            create function refuse() returns trigger language plpgsql as $$
            begin raise insufficient_privilege using message = 'not today'; end $$;
            create constraint trigger refuse after insert on operator_actions deferrable initially deferred
                for each row execute function refuse();
            """
        )
        form = form_on(confirmation(acting, "pause", site=site))
        answer = acting.post(PAUSE, data=form)
        assert (answer.status_code, "not today" in answer.text) == (503, True)


def test_our_own_page(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    form = form_on(confirmation(acting, "pause", site=site))
    ours = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert acting.post(PAUSE, data=form, headers=ours).status_code == 303
    assert len(recorded(connection)) == 1


def test_behind_https(guarded: Callable[[], TestClient], connection: psycopg.Connection, site: str) -> None:
    client = guarded()
    client.headers |= basic("anna") | {"X-Forwarded-Proto": "https"}
    asked = confirmation(client, "pause", site=site)
    cookie = asked.headers["Set-Cookie"].split("; ")
    assert cookie[0].startswith("__Host-clerk-visitor=")
    assert {"Secure", "HttpOnly", "SameSite=strict", "Path=/"} < set(cookie)
    sent = {"Origin": "https://dashboard.example", "Cookie": cookie[0]}
    assert client.post(PAUSE, data=form_on(asked), headers=sent).status_code == 303
    assert len(recorded(connection)) == 1


def test_the_cookie_is_out_of_reach_for_scripts_and_others(acting: TestClient, site: str) -> None:
    cookie = confirmation(acting, "pause", site=site).headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict"} < set(cookie)
    assert "Secure" not in cookie


def test_pressed_twice(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    form = form_on(confirmation(acting, "update", site=site))
    first, second = (acting.post("/actions/update", data=form) for _ in range(2))
    assert (first.status_code, second.status_code) == (303, 303)
    assert first.headers["Location"] == second.headers["Location"]
    assert connection.execute("select count(*) from pipeline_runs").fetchone() == (1,)
    assert len(recorded(connection)) == 1
    connection.execute("update sites set run_id = null, current_stage = 'completed'")
    assert acting.post("/actions/update", data=form).status_code == 303
    assert connection.execute("select count(*) from pipeline_runs").fetchone() == (1,)


def test_two_windows_of_one_browser(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    forms = [form_on(confirmation(acting, action, site=site)) for action in ("pause", "update")]
    assert [
        acting.post(f"/actions/{a}", data=f).status_code for a, f in zip(("pause", "update"), forms, strict=True)
    ] == [
        303,
        303,
    ]
    assert [row[2] for row in recorded(connection)] == ["update", "pause"]


def test_a_made_up_message_is_not_shown(acting: TestClient, client: TestClient, site: str) -> None:
    for browser in (acting, client):
        assert 'class="notice"' not in browser.get(f"/sites/{site}?done=You+have+won").text


def test_no_answer_names_another_place(acting: TestClient, connection: psycopg.Connection) -> None:
    """A site's name is part of where the visitor is led."""
    name = "/evil.example/\\evil.example"
    connection.execute("insert into sites (subdomain) values (%s)", [name])
    answer: httpx2.Response = confirmed(acting, "pause", site=name)
    assert answer.headers["Location"].startswith("/sites//evil.example/%5Cevil.example?done=")
