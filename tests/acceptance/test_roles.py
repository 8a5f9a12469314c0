"""The pipeline with a database user per purpose, as docker-compose.yml and systemd/ run it."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Url
from tests.helpers import TIMEOUT
from tests.runbooks.conftest import Installation, write_documents

UserUrl = Callable[[str], Url]


@pytest.fixture
def user_url(database: Url) -> Iterator[UserUrl]:
    """A function that creates a login user in one role and returns the database's URL for it."""
    created: list[sql.Identifier] = []
    with psycopg.connect(database, autocommit=True) as connection:

        def create(role: str) -> Url:
            name = f"only_{role}_{os.getpid()}"
            created.append(sql.Identifier(name))
            connection.execute(
                sql.SQL("create role {} login password {} in role {}").format(
                    created[-1], sql.Literal(name), sql.Identifier(role)
                )
            )
            parts = urlsplit(database)
            host = parts.netloc.rpartition("@")[2]
            return urlunsplit(parts._replace(netloc=f"{quote(name)}:{quote(name)}@{host}"))

        yield create
        for name in created:
            connection.execute(sql.SQL("drop role {}").format(name))


def test_workers_and_dashboard_need_no_other_rights(database: Url, user_url: UserUrl, tmp_path: Path) -> None:
    write_documents(tmp_path / "documents" / "Council")
    worker = Installation(user_url("clerk_worker"), tmp_path)
    done = worker.run(
        "clerk site add springfield --name Springfield --scraper directory"
        f' --extra \'{{"path": "{tmp_path}/documents"}}\'\n'
        "clerk update springfield\n"
        "clerk worker --until-idle --processes 2\n"
        "clerk retry springfield\n"
        "clerk worker --until-idle --processes 1\n"
        "clerk-reconcile\n"
        "clerk verify\n"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with psycopg.connect(database) as connection:
        assert connection.execute("select outcome from sites").fetchone() == ("partial",)

    # The owner is needed for migrations only.
    refused = worker.run("clerk db down --to 1 --yes")
    assert refused.returncode == 1
    assert "or a member of clerk_owner" in refused.stderr

    dashboard = Installation(user_url("clerk_dashboard"), tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "clerk", "dashboard", "--port", "0"],
        env=dashboard.environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "The dashboard is at http://" in line, line
        address = line.split("http://")[1].split("/")[0]

        def get(path: str) -> str:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=TIMEOUT) as response:
                body: bytes = response.read()
                return body.decode()

        get("/readyz")
        assert "Springfield" in get("/sites/springfield")
        assert "bike" in get("/search?q=lanes"), "it reads the archives in the storage"
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)
