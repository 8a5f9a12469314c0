from __future__ import annotations

import asyncio
import hmac
import re
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from clerk.web import auth
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool

TOKEN = "s3cret-tökén"  # noqa: S105 (of the tests only)
STYLES = Path(auth.__file__).parent / "static" / "clerk.css"


@pytest.fixture
def token_client(pool: ReadOnlyPool) -> TestClient:
    return TestClient(create_app(pool, TOKEN), base_url="http://dashboard.example")


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("authorization", [basic("", TOKEN), basic("anna", TOKEN), f"Bearer {TOKEN}"])
def test_valid_token_is_accepted(token_client: TestClient, authorization: str) -> None:
    assert token_client.get("/", headers={b"Authorization": authorization.encode()}).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        *("", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x"),
        *(f"Digest {TOKEN}", TOKEN, basic("", ""), basic(TOKEN, ""), basic("x", "wrong")),
        *("Basic", "Basic !", "Basic =", "Basic é"),
    ],
)
def test_invalid_token_is_rejected(token_client: TestClient, authorization: str) -> None:
    for url in ("/", "/sites", "/sites/x", "/static/clerk.css", "/livez/", "//livez", "/nowhere"):
        response = token_client.get(url, headers={b"Authorization": authorization.encode()}, follow_redirects=False)
        assert response.status_code == 401, url
        assert response.headers["WWW-Authenticate"].startswith("Basic ")


def test_probes_need_no_token(token_client: TestClient) -> None:
    assert [token_client.get(url).status_code for url in ("/livez", "/readyz")] == [200, 200]


def test_token_is_compared_in_constant_time(token_client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def recording(given: bytes, token: bytes) -> bool:
        compared.append(given)
        return real(given, token)

    monkeypatch.setattr(hmac, "compare_digest", recording)
    token_client.get("/", headers={"Authorization": "Bearer guess"})
    assert compared == [b"guess"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("localhost:8010", 200), ("127.0.0.1:8010", 200), ("[::1]:8010", 200)),
        *(("evil.example", 403), ("evil.example:8010", 403), ("localhost.evil.example", 403), ("10.0.0.1", 403)),
        *(("evil.example:x", 403), ("evil.example/@localhost", 403), ("[", 403), ("", 403), ("localhost:999999", 403)),
    ],
)
def test_without_a_token_only_loopback_hosts_are_accepted(client: TestClient, host: str, status: int) -> None:
    """DNS rebinding: a hostile page that resolves its own name to 127.0.0.1 still sends that name."""
    assert client.get("/", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    "header",
    [
        *("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"),
        *("CF-Connecting-IP", "True-Client-IP", "X-Forwarded", "X-Original-Forwarded-For", "Fly-Client-IP"),
    ],
)
def test_without_a_token_forwarded_requests_are_refused(
    client: TestClient, token_client: TestClient, header: str
) -> None:
    """Behind a proxy on this machine every visitor looks local."""
    response = client.get("/", headers={header: "203.0.113.7"})
    assert response.status_code == 403
    assert header.lower() in response.text
    assert "CLERK_DASHBOARD_TOKEN" in response.text
    assert client.get("/livez", headers={header: "203.0.113.7"}).status_code == 200
    with_token = {b"Authorization": f"Bearer {TOKEN}".encode(), header.encode(): b"203.0.113.7"}
    assert token_client.get("/", headers=with_token).status_code == 200


def test_wrong_tokens_are_delayed_and_correct_ones_are_not(pool: ReadOnlyPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "FAILURE_DELAY", 3600.0)
    monkeypatch.setattr(auth, "MAX_FAILURE_DELAY", 3600.0)
    app = create_app(pool, TOKEN)

    async def request(authorization: bytes | None) -> int:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost")] + ([(b"authorization", authorization)] if authorization else [])
        scope = {"type": "http", "method": "GET", "path": "/livez/", "headers": headers, "query_string": b""}
        await app(scope, receive, send)
        return int(sent[0]["status"])

    async def run() -> None:
        guesses = [asyncio.create_task(request(b"Bearer guess")) for _ in range(3)]
        while app.failures < 3:
            await asyncio.sleep(0)
        assert await request(None) == 401, "a browser that has not asked for the token yet"
        assert await request(f"Bearer {TOKEN}".encode()) != 401
        assert app.failures == 0
        assert not any(guess.done() for guess in guesses)
        for guess in guesses:
            guess.cancel()

    asyncio.run(run())


def test_the_delay_grows_to_its_maximum(pool: ReadOnlyPool, monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    async def record(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr(auth, "FAILURE_DELAY", 0.5)
    monkeypatch.setattr(asyncio, "sleep", record)
    middleware = create_app(pool, TOKEN)
    asyncio.run(_fail(middleware, 7))
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


async def _fail(middleware: auth.AuthMiddleware, times: int) -> None:
    for _ in range(times):
        await middleware._delay()


def test_every_response_has_security_headers(client: TestClient, token_client: TestClient) -> None:
    responses = [client.get(url) for url in ("/", "/nowhere", "/readyz", "/static/clerk.css", "/static/nothing")]
    responses += [client.post("/"), token_client.get("/")]
    assert [response.status_code for response in responses] == [200, 404, 200, 200, 404, 405, 401]
    for response in responses:
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; connect-src 'self';")
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_pages_comply_with_the_content_security_policy(
    client: TestClient, connection: psycopg.Connection, hostile_site: str
) -> None:
    (document,) = connection.execute("select id from content_items").fetchone() or ("",)
    site = f"/sites/{quote(hostile_site)}"
    pages = ("/", "/sites", site, f"{site}/documents/{document}", f"/search?q={quote(hostile_site)}")
    for url in (*pages, "/failures", "/failures/documents", "/queues", "/log", "/nowhere"):
        page = client.get(url).text
        page = re.sub(r'<script type="module" src="/static/\w+\.js"></script>', "", page)
        assert not re.search(r"<(script|style|iframe|object)\b|\s(style|on\w+)=|(src|href)=\"(?!/|#)", page), url


def test_colours_have_enough_contrast() -> None:
    """WCAG AA, in both schemes: 4.5:1 for text on both backgrounds."""
    schemes = re.findall(r":root \{(.*?)\}", STYLES.read_text(), re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for text in ("text", "muted", "link", "good", "bad", "warn"):
            for background in ("page", "panel"):
                assert contrast(colours[text], colours[background]) >= 4.5, (text, background)
        assert contrast(colours["text"], colours["highlight"]) >= 4.5, "a search match"
        for bar in ("link", "good", "bad", "warn"):
            assert contrast(colours[bar], colours["track"]) >= 3, "a bar on its track"
        for line in ("muted", "link", "bad"):
            assert contrast(colours[line], colours["panel"]) >= 3, "icons and connectors of the diagram"


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
