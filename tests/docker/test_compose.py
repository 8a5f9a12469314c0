from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import Url
from tests.docker.compose import FILE, ROOT, SECRETS, Missing, interpolated, load, problems, variables
from tests.helpers import TIMEOUT, until

TEXT = FILE.read_text(encoding="utf-8")


def test_the_file_has_no_problem() -> None:
    assert problems(TEXT) == []


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("restart: always", "restart: sometimes_not: x", "mapping values"),
        ("init: true", "inti: true", "'inti' was unexpected"),
        ("condition: service_healthy", "condition: healthy", "is not valid under any"),
        ("interval: 30s", "interval: [30]", "is not of type 'string'"),
        ("clerk db up", "clerk db upwards", "no such command"),
        ("clerk db up", "clerk", "no such command"),
        ("clerk db up", "klerk db up", "is not the command clerk"),
        ("--queues ocr", "--queue ocr --colour", "No such option"),
        ("--queues ocr", "--queues ocrr", "no service serves the queue ocr"),
        ("--log-format json", "--log-format xml", "is not one of"),
        ("--processes 1", "--processes 0", "0 is not in the range"),
        ("--port 8010", "--port http", "is not a valid integer"),
        ("--grace 100", "--grace 120", "is killed after 2m"),
        (" --grace 100", "", "has no --grace"),
        ("    migrate:\n      condition", "    migration:\n      condition", "which is not a service"),
        ("    healthcheck:\n      # Over", "    x-health:\n      # Over", "has no health check"),
        ('    restart: "no"', "    restart: always", "is restarted"),
        ('"storage:/var', '"store:/var', "mounts store, which is not a volume"),
        ("STORAGE_DIR: /var", "STORAGE_DIR: /srv", "but stores in /srv"),
        ("STORAGE_DIR:", "STORE_DIR:", "STORE_DIR is unknown"),
        ("POSTGRES_DB:", "POSTGRES_DATABASE:", "POSTGRES_DATABASE is unknown"),
        ("postgresql://clerk@postgres", "postgresql://clerk@database", "do not match the service postgres"),
        ("postgresql://clerk@postgres", "mysql://clerk@postgres", "is not a Postgres URL"),
        (":-127.0.0.1}", ":-0.0.0.0}", "open to other machines by default"),
        ("${DASHBOARD_ADDRESS:-127.0.0.1}:", "", "open to other machines by default"),
        (
            "      CLERK_DASHBOARD_TOKEN: ${CLERK_DASHBOARD_TOKEN:?set it in the environment or in .env}\n",
            "",
            "without a token",
        ),
        ("PGPASSWORD: ${POSTGRES_PASSWORD:?", "PGPASSWORD: ${POSTGRES_PASSWORD:-", "PGPASSWORD is not taken"),
        ("    build: .\n", "", "nothing builds its image"),
        ("image: postgres:18", "image: registry.example/postgres:18", "names a registry"),
        ("clerk, worker, --check]", "clerk, worker, --chek]", "No such option"),
        ("import urllib.request;", "import urllib.request; echo $HOME;", "a dollar is written $$"),
    ],
)
def test_problems_are_found(right: str, wrong: str, problem: str) -> None:
    assert right in TEXT
    listed = problems(TEXT.replace(right, wrong))
    assert any(problem in line for line in listed), listed


def test_refuses_to_start_without_secrets() -> None:
    for name in SECRETS:
        with pytest.raises(Missing, match=f"{name}: set it in the environment"):
            load(TEXT, {key: value for key, value in SECRETS.items() if key != name})


def test_interpolation() -> None:
    given = {"A": "1", "EMPTY": ""}
    assert interpolated("$$x ${A} ${A:-2} ${B:-2} ${EMPTY:-2} ${B}", given) == "$x 1 1 2 2 "


def test_every_variable_is_documented() -> None:
    documentation = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
    assert {name for name in variables(TEXT) if f"`{name}`" not in documentation} == set()


def test_a_worker_is_healthy_while_it_runs(database: Url) -> None:
    """Runs the commands of the file before, during and after a worker."""
    service = load(TEXT)["services"]["deploy"]
    environment = os.environ | {"DATABASE_URL": database}
    check = [sys.executable, "-m", *service["healthcheck"]["test"][1:]]

    def healthy() -> bool:
        done = subprocess.run(check, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        assert (done.returncode in (0, 1), done.stderr) == (True, "")
        return done.returncode == 0

    assert not healthy()
    worker = subprocess.Popen([sys.executable, "-m", *service["command"].split()], env=environment)
    try:
        until(lambda: worker.poll() is not None or healthy())
        worker.terminate()
        assert worker.wait(TIMEOUT) == 0
        assert not healthy()
    finally:
        worker.kill()
        worker.wait()
