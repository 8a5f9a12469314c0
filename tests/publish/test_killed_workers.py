"""A worker is killed with SIGKILL during phases 3 and 4: the next worker finishes the run and publishes once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clerk.reconcile.apply import rescue_expired
from tests.archive.helpers import is_intact, rows
from tests.publish.helpers import Town

PLUGIN = """
import os, pathlib, signal
from clerk import hookimpl
from clerk.extraction.rules import Rules

FOLDER = pathlib.Path({folder!r})

def kill_once_at(point):
    with open(FOLDER / "log", "a") as file:
        print(point, file=file)
    marker = FOLDER / "killed"
    if os.environ.get("KILL_AT") == point and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)

@hookimpl
def pre_compilation(subdomain):
    kill_once_at("pre_compilation")

@hookimpl
def post_compilation(subdomain, database_path):
    kill_once_at("post_compilation")

class Killing(Rules):
    def extract(self, pages):
        kill_once_at("extract")
        return super().extract(pages)

@hookimpl
def extractor(label):
    return Killing() if label == "killing" else None

@hookimpl
def deploy_municipality(subdomain):
    kill_once_at("deploy")
    return "somewhere"

@hookimpl
def post_deploy(site):
    kill_once_at("post_deploy")
"""


def run_worker(*, kill_at: str) -> int:
    command = [sys.executable, "-m", "procrastinate", "--app=clerk.app.app", "worker", "--one-shot", "--concurrency=1"]
    environment = {**os.environ, "KILL_AT": kill_at}
    return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=90).returncode


@pytest.mark.parametrize("point", ["pre_compilation", "post_compilation", "extract", "deploy", "post_deploy"])
def test_a_killed_worker(town: Town, plugins_dir: Path, point: str) -> None:
    (plugins_dir / "killing.py").write_text(PLUGIN.format(folder=str(town.folder)))
    town.configure(extractor="killing", deploy=["local", "killing"])
    town.add_document("Mayor Ellen Ortiz called the meeting to order.")
    town.start()
    assert run_worker(kill_at=point) == -9
    if town.published.current is not None:
        assert is_intact(town.published.link / "meetings.db")
    town.connection.execute("update job_claims set lease_until = now() - interval '1 minute' where settled_as is null")
    assert rescue_expired(town.connection) == 1
    town.work()
    assert town.one("select current_stage, outcome from sites") == ("completed", "succeeded")
    database = town.published.link / "meetings.db"
    assert is_intact(database)
    assert "Ellen Ortiz" in rows(database.resolve(), "select entities_json from minutes")[0][0]
    assert town.one("select count(*), count(announced_at) from publications") == (1, 1)
    assert len(town.published.versions()) == 1
    log = (town.folder / "log").read_text().split()
    assert {step: log.count(step) for step in log} == {
        "pre_compilation": 1 + (point in ("pre_compilation", "post_compilation")),
        "post_compilation": 1 + (point == "post_compilation"),
        "extract": 1 + (point == "extract"),
        "deploy": 1 + (point == "deploy"),
        "post_deploy": 1 + (point == "post_deploy"),
    }
    visible = {path.name for path in town.storage.folder.iterdir() if not path.name.startswith(".")}
    assert visible == {"meetings.db", "txt"}
