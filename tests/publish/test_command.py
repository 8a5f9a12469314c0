"""The deployer `command`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from clerk.errors import CommandFailed, CommandTimeout
from clerk.publish.deployers.command import run
from tests.helpers import until


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_the_path_is_passed_as_an_argument_without_a_shell(tmp_path: Path) -> None:
    database = tmp_path / "a b;$(touch pwned)'\".db"
    output = run(python("import os, sys; print(sys.argv[1]); print(os.environ['CLERK_DATABASE'])"), "s", database, 30)
    assert output == str(database)
    assert not list(tmp_path.iterdir())


def test_the_environment_has_no_credentials_of_clerk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://clerk:s3cret@db/clerk"
    for name in (
        "DATABASE_URL",
        "CLERK_DIRECT_DATABASE_URL",
        "REDIS_URL",
        "PGPASSWORD",
        "PGSERVICEFILE",
        "CLERK_DASHBOARD_TOKEN",
    ):
        monkeypatch.setenv(name, url)
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        monkeypatch.setenv(name, "authorization=s3cret")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", url)
    monkeypatch.setenv("DEPLOY_KEY", "the command's own")
    names = "[name for name, value in os.environ.items() if 's3cret' in value]"
    assert run(python(f"import os; print({names})"), "s", tmp_path, 30) == "[]"
    output = run(python("import os; print(os.environ['DEPLOY_KEY'], os.environ['CLERK_SITE'])"), "s", tmp_path, 30)
    assert output == "the command's own s"


def test_a_failure_reports_the_exit_code_and_the_last_output(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"(?s)code 3: .*the disk is full") as caught:
        run(python("import sys; print('x' * 10**7); print('the disk is full'); sys.exit(3)"), "s", tmp_path, 30)
    assert len(str(caught.value)) < 1000


def test_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="cannot be run"):
        run(("/no/such/program",), "s", tmp_path, 30)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


def test_a_timeout_kills_the_process_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        f"with open({str(pids)!r}, 'a') as file: file.write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(CommandTimeout, match="killed after 1 s"):
        run(python(code), "s", tmp_path, 1)
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) == 2
    assert not any(is_running(pid) for pid in started)


def test_child_processes_left_running_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, time\n"
        "reader, writer = os.pipe()\n"
        "if os.fork():\n"
        "    os.read(reader, 1)\n"
        "    os._exit(0)\n"
        f"open({str(pids)!r}, 'w').write(str(os.getpid()))\n"
        "os.write(writer, b'x')\n"
        "time.sleep(600)\n"
    )
    run(python(code), "s", tmp_path, 60)
    pid = int(pids.read_text())
    # SIGKILL was sent before run returned, but the process may take a moment to exit.
    until(lambda: not is_running(pid))


def test_stdin_is_empty(tmp_path: Path) -> None:
    assert run(python("import sys; print(repr(sys.stdin.read()))"), "s", tmp_path, 30) == "''"
