"""`clerk serve` in a separate process, with an HTTP client."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg

from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.errors import EXIT_FAILURE, EXIT_USAGE
from tests.archive.helpers import add_site
from tests.conftest import Url
from tests.datasette_app.conftest import Archives

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "clerk", "serve"]


def environment(database: Url, archives: Archives) -> dict[str, str]:
    own = {"DATABASE_URL": database, "STORAGE_DIR": str(archives.storage), "CLERK_PUBLISH_DIR": str(archives.published)}
    return {**os.environ, "PYTHONPATH": str(ROOT), **own}


@contextmanager
def serving(database: Url, archives: Archives) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(
        [*COMMAND, "--port", "0"], env=environment(database, archives), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert match, line + process.stderr.read()
            yield process, match[0]
        finally:
            process.kill()


def test_serve_until_sigterm(connection: psycopg.Connection, database: Url, archives: Archives) -> None:
    add_site(connection, "springfield")
    archives.publish("springfield", "The council spoke of bike lanes. <script>alert(1)</script>")
    archives.add_image("springfield", "images/CityCouncil/2024-03-05/1.png")
    with serving(database, archives) as (process, address), httpx2.Client(base_url=address, timeout=60) as client:
        assert '<a href="/springfield"><bdi>Springfield</bdi></a>' in client.get("/").text
        assert "<script>alert(1)" not in client.get("/springfield/minutes?_search=lanes").text
        assert client.get("/-/images/springfield/CityCouncil/2024-03-05/1.png").content == b"\x89PNG of a page"
        # Datasette redirects paths with % to its own encoding.
        traversal = client.get("/-/images/springfield/%2e%2e/%2e%2e/1.png", follow_redirects=True)
        assert traversal.status_code == 404
        archives.publish("springfield", "Another version.")
        assert client.get("/springfield/minutes.json?_shape=array").json()[0]["text"] == "Another version."
        assert "server" not in client.get("/").headers
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_an_unreachable_database_does_not_delay_serving(archives: Archives) -> None:
    archives.publish("springfield", "one")
    with subprocess.Popen(
        [*COMMAND, "--port", "0"],
        env=environment("postgresql://x@127.0.0.1:1/x", archives),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert "site names cannot be read from the database" in process.stderr.readline()
            match = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
            assert match
            assert '<a href="/springfield"><bdi>springfield</bdi></a>' in httpx2.get(match[0], timeout=60).text
        finally:
            process.kill()


def run_refused(environment: dict[str, str], port: str = "0") -> tuple[int, str]:
    done = subprocess.run([*COMMAND, "--port", port], env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def test_archives_that_are_published_later_appear(database: Url, archives: Archives) -> None:
    with serving(database, archives) as (_, address), httpx2.Client(base_url=address, timeout=60) as client:
        assert "Nothing has been published yet." in client.get("/").text
        archives.publish("springfield", "one")
        page = client.get("/").text
        assert "Nothing has been published yet." not in page
        assert '<a href="/springfield"><bdi>springfield</bdi></a>' in page


def test_a_missing_datasette_names_the_package_to_install(database: Url, archives: Archives, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "sitecustomize.py").write_text("import sys\nsys.modules['datasette'] = None\n")
    archives.publish("springfield", "one")
    code, message = run_refused(environment(database, archives) | {"PYTHONPATH": f"{absent}{os.pathsep}{ROOT}"})
    assert (code, message) == (EXIT_FAILURE, "clerk: Datasette is not installed: pip install 'clerk[serve]'.\n")


def test_a_port_in_use_is_a_one_line_error(archives: Archives, database: Url) -> None:
    archives.publish("springfield", "one")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, message = run_refused(environment(database, archives), str(taken.getsockname()[1]))
    assert code == EXIT_USAGE
    assert message.startswith("clerk: cannot listen on 127.0.0.1 port")
    assert message.count("\n") == 1


def test_names_are_read_as_soon_as_there_is_a_database(connection: psycopg.Connection, database: Url) -> None:
    add_site(connection, "springfield")
    metadata = SiteMetadata.from_postgres(iter([None, database]).__next__)
    metadata.refresh()
    assert metadata.name("springfield") == "springfield"
    metadata.refresh()
    metadata.refresh()
    assert metadata.name("springfield") == "Springfield"
