from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import click
import pytest

from clerk import config
from clerk.ocr.sandbox import _WALL_PER_CPU_SECOND as WALL_PER_CPU_SECOND
from clerk.pipeline.engine import QUEUES
from clerk.pipeline.worker import ClerkWorker
from tests.docker.compose import ISOLATED, parsed
from tests.systemd.units import (
    FOLDER,
    INSTALLED,
    ROOT,
    SANDBOX,
    SERVICES,
    UNITS,
    install,
    instance,
    limits,
    read,
    seconds,
    service,
    single,
)

MAX_EXPOSURE = 2.0
WORKER, DASHBOARD, RECONCILE = "clerk-worker@.service", "clerk-dashboard.service", "clerk-reconcile.service"
SERVE = "clerk-serve.service"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (bin/setup --for-tests, on Linux)"
)


def analyze(units: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:", "SYSTEMD_COLORS": "0"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_these_are_the_units() -> None:
    assert sorted([WORKER, DASHBOARD, RECONCILE, SERVE, "clerk-reconcile.timer", "clerk.target"]) == UNITS


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_every_unit(unit: str, tmp_path: Path) -> None:
    units = install(tmp_path / "units")
    result = analyze(units, "verify", "--man=no", instance(unit))
    assert (result.returncode, result.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("queue", [*QUEUES, "all"])
def test_systemd_accepts_the_worker_of_every_queue(queue: str, tmp_path: Path) -> None:
    units = install(tmp_path / "units")
    result = analyze(units, "verify", "--man=no", instance(WORKER, queue))
    assert (result.returncode, result.stderr) == (0, "")
    if queue in ISOLATED:
        (units / f"clerk-worker@{queue}.service.d" / "10-limits.conf").write_text("[Service]\nIPAddressDeny=none\n")
        assert "10-limits.conf" in analyze(units, "verify", "--man=no", instance(WORKER, queue)).stderr, "it is used"


@needs_systemd
def test_systemd_rejects_an_unknown_setting(tmp_path: Path) -> None:
    """Proves that the test above can fail."""
    units = install(tmp_path / "units")
    with (units / SANDBOX.relative_to(FOLDER)).open("a") as sandbox:
        sandbox.write("ProtectEverything=yes\n")
    assert "ProtectEverything" in analyze(units, "verify", "--man=no", DASHBOARD).stderr


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES)
def test_every_service_is_sandboxed(unit: str, tmp_path: Path) -> None:
    assert exposure(install(tmp_path / "units"), unit) <= MAX_EXPOSURE


@needs_systemd
def test_without_the_sandbox_the_exposure_is_high(tmp_path: Path) -> None:
    units = install(tmp_path / "units")
    (units / SANDBOX.relative_to(FOLDER)).unlink()
    assert exposure(units, DASHBOARD) > 5


def exposure(units: Path, unit: str) -> float:
    result = analyze(units, "security", "--offline=true", "--no-pager", instance(unit))
    level = re.search(r"exposure level for .*: ([0-9.]+) ", result.stdout)
    assert level is not None, result.stderr
    return float(level[1])


def test_the_sandbox_permits_processes_to_restrict_themselves() -> None:
    """Landlock is not part of @system-service. Without these calls the reader processes would not be restricted."""
    allowed = " ".join(read(SANDBOX)["Service"]["SystemCallFilter"]).split()
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} <= set(allowed)


@needs_systemd
def test_systemd_knows_the_system_calls(tmp_path: Path) -> None:
    units = install(tmp_path / "units")
    assert analyze(units, "verify", "--man=no", instance(WORKER)).stderr == ""
    sandbox = units / SANDBOX.relative_to(FOLDER)
    sandbox.write_text(sandbox.read_text().replace("landlock_add_rule", "landlock_add_rules"))
    assert "landlock_add_rules" in analyze(units, "verify", "--man=no", instance(WORKER)).stderr


@needs_systemd
def test_the_timer_runs_every_15_minutes() -> None:
    when = single(read(FOLDER / "clerk-reconcile.timer"), "Timer", "OnCalendar")
    assert when == "*:0/15"
    result = analyze(FOLDER, "calendar", "--iterations=3", "--base-time=2030-01-01 00:01:00 UTC", when).stdout
    assert re.findall(r"(\d\d:\d\d):00 UTC", result)[:3] == ["00:15", "00:30", "00:45"]


def command(unit: str) -> str:
    """The command line of the service."""
    path, _, rest = single(service(unit), "Service", "ExecStart").partition(" ")
    assert path.startswith(f"{INSTALLED}/")
    return f"{Path(path).name} {rest}".strip()


@pytest.mark.parametrize("queue", [*QUEUES, "all"])
def test_a_worker_of_every_queue_can_be_started(queue: str) -> None:
    context = parsed(command(WORKER).replace("%i", queue))
    assert context.params["queues"] == queue


def test_the_commands_of_the_others_exist() -> None:
    assert parsed(command(DASHBOARD)).info_name == "dashboard"
    assert parsed(command(SERVE)).info_name == "serve"
    assert not parsed(command(SERVE)).params["allow_sql"]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert command(RECONCILE) in scripts
    with pytest.raises(click.UsageError):
        parsed("clerk dash")


@pytest.mark.parametrize("unit", [WORKER, DASHBOARD, SERVE])
def test_long_running_services_restart_always_and_without_limit(unit: str) -> None:
    assert single(service(unit), "Service", "Restart") == "always"
    assert single(service(unit), "Unit", "StartLimitIntervalSec") == "0"


def test_anonymous_requests_have_limits_and_write_nothing() -> None:
    settings = service(SERVE)["Service"]
    assert {"MemoryMax", "MemoryHigh", "TasksMax"} <= settings.keys()
    assert settings["ReadOnlyPaths"] == ["/var/lib/clerk"]


def test_a_stopping_worker_has_time_for_the_longest_step_of_a_job() -> None:
    settings = config.load({}, Path("/nowhere"))
    longest = max(
        settings.download_time_limit,
        settings.plugin_time_limit,
        settings.deploy_time_limit,
        settings.ocr_page_seconds * WALL_PER_CPU_SECOND,
    )
    grace = parsed(command(WORKER).replace("%i", "ocr")).params["grace"]
    assert grace >= longest
    unresponsive_after = inspect.signature(ClerkWorker).parameters["unresponsive_after"].default
    assert seconds(single(service(WORKER), "Service", "TimeoutStopSec")) > grace + unresponsive_after


def test_a_worker_notifies_more_often_than_the_watchdog_requires() -> None:
    """Every five seconds, and its database check takes at most ten."""
    assert seconds(single(service(WORKER), "Service", "WatchdogSec")) >= 30
    assert single(service(WORKER), "Service", "Type") == "notify"
    # Only the supervisor notifies; with `all`, one live child process would hide a dead supervisor.
    assert single(service(WORKER), "Service", "NotifyAccess") == "main"
    assert single(service(WORKER), "Service", "KillMode") == "mixed"


ROLES = {WORKER: "worker", RECONCILE: "worker", DASHBOARD: "dashboard", SERVE: "dashboard"}
"""The folder of the credentials of each service; no service has those of the owner."""


@pytest.mark.parametrize("unit", SERVICES)
def test_no_unit_contains_a_secret(unit: str) -> None:
    settings = service(unit)["Service"]
    for assignment in settings["Environment"]:
        assert not re.match(r"DATABASE_URL|\w*(PASSWORD|TOKEN)", assignment)
    known = {setting.name for setting in config.SETTINGS}
    loaded = dict(value.split(":", 1) for value in settings["LoadCredential"])
    assert loaded == {name: f"/etc/clerk/credentials/{ROLES[unit]}/{name}" for name in loaded}
    assert "DATABASE_URL" in loaded
    assert loaded.keys() <= known
    assert {assignment.partition("=")[0] for assignment in settings["Environment"]} <= known
    for credential in settings.get("SetCredential", []):
        assert credential.endswith(":\\n"), "the default is empty"


def test_the_sandbox_permits_writing_where_clerk_writes() -> None:
    sandbox = read(SANDBOX)["Service"]
    environment = dict(line.split("=", 1) for line in sandbox["Environment"])
    settings = config.load(environment, Path("/nowhere"))
    home = f"/var/lib/{sandbox['StateDirectory'][0]}"
    for folder in (settings.home, settings.storage_dir, settings.publish_dir):
        assert isinstance(folder, Path)
        assert Path(home) in [folder, *folder.parents]


@pytest.mark.parametrize(
    ("arguments", "role"),
    [
        ("db up", "owner"),
        ("--debug db verify", "owner"),
        ("legacy inspect", "owner"),
        ("migrate-stuck-sites --dry-run", "owner"),
        ("status", "worker"),
        ("search db", "worker"),
        ("", "worker"),
    ],
)
def test_the_command_connects_as_owner_for_migrations_only(arguments: str, role: str, tmp_path: Path) -> None:
    """With a systemd-run that prints its arguments."""
    (tmp_path / "systemd-run").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "systemd-run").chmod(0o755)
    done = subprocess.run(
        [FOLDER / "clerk", *arguments.split()],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    *options, program = (
        done.stdout.split(arguments.replace(" ", "\n"))[0].splitlines() if arguments else (done.stdout.splitlines())
    )
    assert program == f"{INSTALLED}/clerk"
    assert f"--property=LoadCredential=DATABASE_URL:/etc/clerk/credentials/{role}/DATABASE_URL" in options
    assert done.stdout.split()[len(options) + 1 :] == arguments.split()


def test_the_dashboard_reads_the_storage_and_cannot_change_it() -> None:
    dashboard = service(DASHBOARD)["Service"]
    assert dashboard["ReadOnlyPaths"] == ["-/var/lib/clerk/storage"]
    assert "InaccessiblePaths" not in dashboard


@pytest.mark.parametrize("queue", QUEUES)
def test_every_queue_has_a_memory_limit(queue: str) -> None:
    assert re.fullmatch(r"\d+(G|%)", single(limits(queue), "Service", "MemoryMax"))


@pytest.mark.parametrize("unit", SERVICES)
def test_every_service_has_a_memory_limit(unit: str) -> None:
    assert re.fullmatch(r"\d+(G|%)", single(service(unit), "Service", "MemoryMax"))


@pytest.mark.parametrize("queue", QUEUES)
def test_workers_that_parse_documents_reach_this_machine_only(queue: str) -> None:
    network = {key: values for key, values in limits(queue)["Service"].items() if key.startswith("IP")}
    assert network == ({"IPAddressDeny": ["any"], "IPAddressAllow": ["localhost"]} if queue in ISOLATED else {})


README = (FOLDER / "README.md").read_text(encoding="utf-8")
DROP_INS = [textwrap.dedent(block) for block in re.findall(r"(?m)(?:^    .*\n)+", README) if block.startswith("    [")]


def test_the_readme_names_exactly_the_units() -> None:
    named = re.findall(r"clerk[\w-]*(?:@\w*)?\.(?:service|timer|target)\b(?!\.d)", README)
    assert {re.sub(r"@\w*", "@", name) for name in named} == set(UNITS)


@needs_systemd
def test_the_readme_states_the_exposure_that_systemd_computes(tmp_path: Path) -> None:
    level = re.search(r"rates each service at ([0-9.]+)", README)
    without_network = re.search(r"those without a network at ([0-9]\.[0-9])", README)
    assert level is not None
    assert without_network is not None
    units = install(tmp_path / "units")
    assert {exposure(units, instance(unit, "all")) for unit in SERVICES} == {float(level[1])}
    assert {exposure(units, instance(WORKER, queue)) for queue in ISOLATED} == {float(without_network[1])}


@needs_systemd
@pytest.mark.parametrize("drop_in", DROP_INS, ids=range(len(DROP_INS)))
def test_systemd_accepts_the_drop_ins_of_the_readme(drop_in: str, tmp_path: Path) -> None:
    units = install(tmp_path / "units")
    unit = instance(WORKER) if "[Service]" in drop_in else "clerk-reconcile.timer"
    (units / f"{unit}.d").mkdir(exist_ok=True)
    (units / f"{unit}.d" / "override.conf").write_text(drop_in.replace(INSTALLED, str(Path(sys.executable).parent)))
    result = analyze(units, "verify", "--man=no", unit)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_readme_has_nine_drop_ins() -> None:
    assert len(DROP_INS) == 9


def test_cron_uses_the_settings_and_the_storage_of_the_units(tmp_path: Path) -> None:
    """Runs the line of the crontab with `clerk config` in place of `clerk-reconcile`, below another root folder."""
    recipe = re.search(r"(?m)^    CREDENTIALS_DIRECTORY=(?:.*\n)+?\n", README)
    assert recipe is not None
    text = textwrap.dedent(recipe[0]).replace("/etc/clerk", f"{tmp_path}/etc").replace("/var/lib", f"{tmp_path}/lib")
    *variables, line = text.strip().splitlines()
    script = line.removeprefix("*/15 * * * *").replace(">/dev/null", "--json")
    script = script.replace(f"{INSTALLED}/clerk-reconcile", f"{Path(sys.executable).parent}/clerk config")
    (tmp_path / "lib" / "clerk").mkdir(parents=True)
    (tmp_path / "etc" / "credentials" / "worker").mkdir(parents=True)
    (tmp_path / "etc" / "credentials" / "worker" / "DATABASE_URL").write_text("postgresql://clerk_worker@db/clerk")
    for settings, storage in (("", "lib/clerk/storage"), (f"STORAGE_DIR={tmp_path}/srv\n", "srv")):
        (tmp_path / "etc" / "clerk.env").write_text(settings)
        environment = dict(variable.split("=", 1) for variable in variables) | {"PATH": os.environ["PATH"]}
        done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
        shown = {row["name"]: row["value"] for row in json.loads(done.stdout)}
        assert shown["STORAGE_DIR"] == str(tmp_path / storage)
        assert shown["DATABASE_URL"] == "postgresql://clerk_worker@db/clerk"
