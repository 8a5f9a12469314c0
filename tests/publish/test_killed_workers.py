"""A worker that dies with SIGKILL in the midst of phases 3 and 4: the next one finishes, and publishes once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clerk.reconcile.apply import rescue_expired
from tests.archive.library import is_whole, rows
from tests.publish.helpers import Town

PLUGIN = """
import os, pathlib, signal
from clerk import hookimpl
from clerk.extraction.rules import Rules

FOLDER = pathlib.Path({folder!r})

def die_once_at(point):
    with open(FOLDER / "log", "a") as file:
        print(point, file=file)
    marker = FOLDER / "dead"
    if os.environ.get("DIE_AT") == point and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)

@hookimpl
def pre_compilation(subdomain):
    die_once_at("pre_compilation")

@hookimpl
def post_compilation(subdomain, database_path):
    die_once_at("post_compilation")

class Deadly(Rules):
    def extract(self, pages):
        die_once_at("extract")
        return super().extract(pages)

@hookimpl
def extractor(label):
    return Deadly() if label == "deadly" else None

@hookimpl
def deploy_municipality(subdomain):
    die_once_at("deploy")
    return "somewhere"

@hookimpl
def post_deploy(site):
    die_once_at("post_deploy")
"""


def worker_until_it_ends(*, die_at: str) -> int:
    command = [sys.executable, "-m", "procrastinate", "--app=clerk.app.app", "worker", "--one-shot", "--concurrency=1"]
    environment = {**os.environ, "DIE_AT": die_at}
    return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=90).returncode


@pytest.mark.parametrize("point", ["pre_compilation", "post_compilation", "extract", "deploy", "post_deploy"])
def test_a_worker_that_is_killed_at(town: Town, plugins_dir: Path, point: str) -> None:
    (plugins_dir / "deadly.py").write_text(PLUGIN.format(folder=str(town.folder)))
    town.configure(extractor="deadly", deploy=["local", "deadly"])
    town.read("Mayor Ellen Ortiz called the meeting to order.")
    town.start()
    assert worker_until_it_ends(die_at=point) == -9
    if town.published.current is not None:
        assert is_whole(town.published.link / "meetings.db")
    town.connection.execute("update job_claims set lease_until = now() - interval '1 minute' where settled_as is null")
    assert rescue_expired(town.connection) == 1
    town.work()
    assert town.one("select current_stage, outcome from sites") == ("completed", "succeeded")
    database = town.published.link / "meetings.db"
    assert is_whole(database)
    assert "Ellen Ortiz" in rows(database.resolve(), "select entities_json from minutes")[0][0]
    assert town.one("select count(*), count(announced_at) from publications") == (1, 1)
    assert len(town.published.versions()) == 1
    log = (town.folder / "log").read_text().split()
    assert {one: log.count(one) for one in log} == {
        "pre_compilation": 1 + (point in ("pre_compilation", "post_compilation")),
        "post_compilation": 1 + (point == "post_compilation"),
        "extract": 1 + (point == "extract"),
        "deploy": 1 + (point == "deploy"),
        "post_deploy": 1 + (point == "post_deploy"),
    }
    visible = {path.name for path in town.storage.folder.iterdir() if not path.name.startswith(".")}
    assert visible == {"meetings.db", "txt"}
