from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from clerk.db.embedded.server import bundled
from tests.conftest import Url
from tests.docker.compose import FILE, MOUNTED_SECRETS, ROOT, interpolated, load, problems, secrets, variables
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
        ("      migrate:\n        condition", "      migration:\n        condition", "which is not a service"),
        ("    healthcheck:\n      # Over", "    x-health:\n      # Over", "has no health check"),
        ('    restart: "no"', "    restart: always", "is restarted"),
        (
            '["storage:/var/lib/clerk/storage"]',
            '["store:/var/lib/clerk/storage"]',
            "mounts store, which is not a volume",
        ),
        ("STORAGE_DIR: /var", "STORAGE_DIR: /srv", "but its storage is storage:/srv"),
        ("/storage:ro", "/storage", "dashboard: mounts"),
        ("STORAGE_DIR:", "STORE_DIR:", "STORE_DIR is unknown"),
        ("POSTGRES_DB:", "POSTGRES_DATABASE:", "POSTGRES_DATABASE is unknown"),
        ("source: worker_url", "source: owner_url", "ocr: DATABASE_URL is not that of the user clerk_worker"),
        (
            "source: dashboard_url",
            "source: worker_url",
            "dashboard: DATABASE_URL is not that of the user clerk_dashboard",
        ),
        ("source: owner_url", "source: worker_url", "migrate: DATABASE_URL is not that of the user clerk"),
        ("source: owner_url", "source: owners_url", "owners_url is not a secret"),
        ("./secrets/worker_url", "./worker_url", "worker_url is not a file that bin/docker-secrets creates"),
        ("POSTGRES_USER: clerk", "POSTGRES_USER: postgres", "migrate: DATABASE_URL is not that of the user postgres"),
        ("    internal: true", "    internal: false", "ocr: can reach the internet"),
        (
            "networks: [database]\n  volumes",
            "networks: [database, internet]\n  volumes",
            "extraction: can reach the internet",
        ),
        ("networks: [database]\n  volumes", "networks: []\n  volumes", "compilation: is in the default network"),
        ("    mem_limit: 2g\n\n  extraction", "\n  extraction", "compilation: has no memory limit"),
        (":-127.0.0.1}", ":-0.0.0.0}", "open to other machines by default"),
        ("${DASHBOARD_ADDRESS:-127.0.0.1}:", "", "open to other machines by default"),
        ("target: CLERK_DASHBOARD_TOKEN", "target: DASHBOARD_TOKEN", "without a token"),
        (
            "POSTGRES_PASSWORD_FILE: /run/secrets/owner",
            "POSTGRES_PASSWORD: x",
            "POSTGRES_PASSWORD is in the environment",
        ),
        ("    build: .\n", "", "nothing builds its image"),
        ("image: postgres:18", "image: registry.example/postgres:18", "names a registry"),
        ("image: postgres:18.6@sha256:", "image: postgres:18.6#", "is not pinned by digest"),
        ("clerk, worker, --check]", "clerk, worker, --chek]", "No such option"),
        ("import urllib.request;", "import urllib.request; echo $HOME;", "a dollar is written $$"),
    ],
)
def test_problems_are_found(right: str, wrong: str, problem: str) -> None:
    assert right in TEXT
    listed = problems(TEXT.replace(right, wrong))
    assert any(problem in line for line in listed), listed


def test_secrets_are_created_once_and_readable_only_through_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    command = [ROOT / "bin" / "docker-secrets", folder]
    subprocess.run(command, check=True, capture_output=True)
    before = {path.name: path.read_text() for path in folder.iterdir()}
    assert before.keys() == load(TEXT)["secrets"].keys()
    assert {len(before[name]) for name in ("owner", "worker", "dashboard", "dashboard_token")} == {48}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o444}
    (folder / "dashboard").unlink()
    subprocess.run(command, check=True, capture_output=True)
    changed = {name for name, content in before.items() if (folder / name).read_text() != content}
    assert changed == {"dashboard", "dashboard_url"}


def test_the_service_roles_gives_the_roles_their_passwords(database: Url, tmp_path: Path) -> None:
    """Runs its command, with the server under test in place of the service postgres."""
    script = load(TEXT)["services"]["roles"]["command"][-1]
    for name, secret in secrets().items():
        (tmp_path / name).write_text(secret)
    script = script.replace(MOUNTED_SECRETS, str(tmp_path))
    script, changes = re.subn("--host=postgres --username=clerk clerk", shlex.quote(database), script)
    assert changes == 1
    environment = os.environ | {"PATH": f"{bundled(18)}:{os.environ['PATH']}"}
    with psycopg.connect(database, autocommit=True) as connection:
        try:
            subprocess.run(["bash", "-euc", script], env=environment, check=True, capture_output=True)
            roles: dict[str, str] = dict(
                connection.execute(
                    "select rolname, rolpassword from pg_authid where rolcanlogin and rolname like 'clerk\\_%'"
                ).fetchall()
            )
        finally:
            connection.execute("alter role clerk_worker nologin password null")
            connection.execute("alter role clerk_dashboard nologin password null")
    assert roles.keys() == {"clerk_worker", "clerk_dashboard"}
    for name, stored in roles.items():
        assert is_password(secrets()[name.removeprefix("clerk_")].strip(), stored), name


def is_password(password: str, stored: str) -> bool:
    """Whether this is the password of a SCRAM-SHA-256 verifier (RFC 5803), as Postgres stores it."""
    iterations, salt, stored_key = re.match(r"SCRAM-SHA-256\$(\d+):(.+)\$(.+):", stored).groups()  # type: ignore[union-attr]
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(iterations))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return base64.b64decode(stored_key) == hashlib.sha256(client_key).digest()


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
