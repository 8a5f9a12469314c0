"""`clerk serve` as people start it: a process of its own, a real server, a real client."""

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

from clerk.errors import EXIT_FAILURE, EXIT_USAGE
from tests.archive.library import add_site
from tests.conftest import Url
from tests.datasette_app.conftest import World

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "clerk", "serve"]


def environment(database: Url, world: World) -> dict[str, str]:
    own = {"DATABASE_URL": database, "STORAGE_DIR": str(world.storage), "CLERK_PUBLISH_DIR": str(world.published)}
    return {**os.environ, "PYTHONPATH": str(ROOT), **own}


@contextmanager
def serving(database: Url, world: World) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(
        [*COMMAND, "--port", "0"], env=environment(database, world), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert found, said + process.stderr.read()
            yield process, found[0]
        finally:
            process.kill()


def test_from_the_first_page_to_the_end(connection: psycopg.Connection, database: Url, world: World) -> None:
    add_site(connection, "springfield")
    world.publish("springfield", "The council spoke of bike lanes. <script>alert(1)</script>")
    world.picture("springfield", "images/CityCouncil/2024-03-05/1.png")
    with serving(database, world) as (process, address), httpx2.Client(base_url=address, timeout=60) as client:
        assert '<a href="/springfield">Springfield</a>' in client.get("/").text
        assert "<script>alert(1)" not in client.get("/springfield/minutes?_search=lanes").text
        assert client.get("/-/images/springfield/CityCouncil/2024-03-05/1.png").content == b"\x89PNG of a page"
        # Datasette sends addresses with % on to its own way of writing them.
        rude = client.get("/-/images/springfield/%2e%2e/%2e%2e/1.png", follow_redirects=True)
        assert rude.status_code == 404
        world.publish("springfield", "Another version.")
        assert client.get("/springfield/minutes.json?_shape=array").json()[0]["text"] == "Another version."
        assert "server" not in client.get("/").headers
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_names_are_not_waited_for(world: World) -> None:
    world.publish("springfield", "one")
    with subprocess.Popen(
        [*COMMAND, "--port", "0"],
        env=environment("postgresql://x@127.0.0.1:1/x", world),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert "the names of the sites cannot be read" in process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
            assert found
            assert '<a href="/springfield">springfield</a>' in httpx2.get(found[0], timeout=60).text
        finally:
            process.kill()


def refused(environment: dict[str, str], port: str = "0") -> tuple[int, str]:
    done = subprocess.run([*COMMAND, "--port", port], env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def test_nothing_published_is_one_sentence(database: Url, world: World) -> None:
    code, said = refused(environment(database, world))
    assert code == EXIT_FAILURE
    assert said == f"clerk: nothing is published under {world.published}: see how the sites are with `clerk status`.\n"


def test_without_datasette_it_says_what_to_install(database: Url, world: World, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "sitecustomize.py").write_text("import sys\nsys.modules['datasette'] = None\n")
    world.publish("springfield", "one")
    code, said = refused(environment(database, world) | {"PYTHONPATH": f"{absent}{os.pathsep}{ROOT}"})
    assert (code, said) == (EXIT_FAILURE, "clerk: Datasette is not installed: pip install 'clerk[serve]'.\n")


def test_a_taken_port_is_one_sentence(world: World, database: Url) -> None:
    world.publish("springfield", "one")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = refused(environment(database, world), str(taken.getsockname()[1]))
    assert code == EXIT_USAGE
    assert said.startswith("clerk: cannot listen on 127.0.0.1 port")
    assert said.count("\n") == 1
