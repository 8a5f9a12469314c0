"""Follows docs/kubernetes.md without a cluster: its SQL, then the commands of the pods, each with its own Secret."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from clerk.db.embedded.server import Server
from tests.conftest import NO_FSYNC, Url, running
from tests.docker.compose import ROOT
from tests.helm.chart import Manifest, load, pods, render
from tests.helpers import TIMEOUT, until

OWNER = "administrator"
"""In place of the user clerk of the documentation, which is the superuser of the embedded server."""


@pytest.fixture
def bare_server(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[Url]:
    """A server without the roles of clerk, which those of other tests have."""
    if not pytestconfig.getoption("--long"):
        pytest.skip("starts a server, and every program of the chart several times: run bin/test --long")
    with running(Server(tmp_path / "postgres", options=NO_FSYNC)) as url:
        yield url


class Pod:
    """Runs the commands of a pod with the environment that the chart gives it."""

    def __init__(self, template: Manifest, folder: Path, secret: dict[str, str]) -> None:
        (self.container,) = template["spec"]["containers"]
        # As Kubernetes mounts a Secret: each file is a link into a folder that is replaced as a whole.
        files = folder / "..2026_11_18"
        files.mkdir(parents=True)
        (folder / "..data").symlink_to(files.name)
        for name, value in secret.items():
            (files / name).write_text(value)
            (folder / name).symlink_to(f"..data/{name}")
        mounted = {"/run/secrets/clerk": str(folder), "/var/lib/clerk": str(folder.parent / "home")}
        self.environment = {"PATH": os.environ["PATH"]}
        for variable in self.container["env"]:
            path = str(variable["value"])
            for inside, outside in mounted.items():
                path = path.replace(inside, outside)
            self.environment[variable["name"]] = path

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        words = [sys.executable, "-m", *command]
        return subprocess.Popen(words, env=self.environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def run(self, command: list[str]) -> tuple[int, str]:
        with self.start(command) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
            return process.returncode, output


def test_the_pods_work_with_the_roles_of_the_documentation(bare_server: Url, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    statements = re.findall(r"^ +((?:create (?:role|database)|grant) .*;)$", page, re.MULTILINE)
    assert len(statements) == 6
    with psycopg.connect(bare_server, autocommit=True) as connection:
        for statement in statements:
            # Statements of the documentation, not of a user.
            connection.execute(re.sub(r"(role|to|owner) clerk\b(?!_)", rf"\1 {OWNER}", statement))

    def url(user: str) -> str:
        return make_conninfo(bare_server, user=user, dbname="clerk")

    templates = pods(load(render()))
    migrate = Pod(templates["clerk-migrate"], tmp_path / "owner", {"DATABASE_URL": url(OWNER)})
    worker = Pod(templates["clerk-coordinator"], tmp_path / "worker", {"DATABASE_URL": url("clerk_worker")})
    secret = {"DATABASE_URL": url("clerk_dashboard"), "CLERK_DASHBOARD_TOKEN": "t" * 24}
    dashboard = Pod(templates["clerk-dashboard"], tmp_path / "dashboard", secret)

    code, output = migrate.run(migrate.container["command"])
    assert code == 0, output
    probe = worker.container["livenessProbe"]["exec"]["command"]
    assert worker.run(probe)[0] == 1
    running_worker = worker.start(worker.container["command"])
    try:
        until(lambda: running_worker.poll() is not None or worker.run(probe)[0] == 0)
        running_worker.terminate()
        assert running_worker.wait(TIMEOUT) == 0
    finally:
        running_worker.kill()
        running_worker.communicate()
    assert worker.run(probe)[0] == 1

    running_dashboard = dashboard.start([*dashboard.container["command"][:-1], "0"])
    try:
        assert running_dashboard.stdout is not None
        started = re.search(r":(\d+)/", running_dashboard.stdout.readline())
        assert started is not None
        port = started[1]
        for check in ("livenessProbe", "readinessProbe"):
            path = dashboard.container[check]["httpGet"]["path"]
            until(lambda path=path: _responds(f"http://127.0.0.1:{port}{path}"))  # type: ignore[misc]
    finally:
        running_dashboard.kill()
        running_dashboard.communicate()


def _responds(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as response:  # noqa: S310 (this machine)
            return bool(response.status == 200)
    except URLError:
        return False
