"""A worker that was frozen and lost its job to another neither installs meetings.db nor publishes.

A plugin takes the claim away while its hook runs, as a rescue does while a worker is frozen there.
"""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path

import pytest

from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from clerk.errors import ClaimLost
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.tasks import compilation, deploy
from clerk.publish.deployers import local
from clerk.publish.versions import SiteVersions
from tests.archive.helpers import SiteDocuments, rows
from tests.guards.removal import Guard, removed
from tests.publish.conftest import plugins_dir as plugins_dir
from tests.publish.conftest import town as town
from tests.publish.helpers import Town

_LOSE_CLAIM = """
import os
from pathlib import Path

import psycopg

from clerk import hookimpl
from clerk.pipeline import engine

def lose_claim():
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        (job,) = connection.execute("select id from procrastinate_jobs where status = 'doing'").fetchone()
        connection.execute("update job_claims set lease_until = clerk_now() - interval '1 s'")
        assert engine.rescue_job(connection, job) == "rescued"
        engine.cancel_run(connection, "springfield")  # no second attempt, whose results would hide those of the first

def note(name):
    Path(os.environ["STORAGE_DIR"], name).touch()
"""


def _in_deploy(town: Town, *deployers: str) -> None:
    """A run of which only the deploy job is left."""
    town.configure(deploy=list(deployers))
    town.add_document("one")
    town.start(3)
    town.work_on("compilation", "extraction", "coordinator")


def _attempts(town: Town) -> list[tuple[str, ...]]:
    return town.connection.execute("select distinct why from ignored_results").fetchall()


def test_compilation_does_not_install(town: Town, plugins_dir: Path) -> None:
    hook = "@hookimpl\ndef post_compilation():\n    lose_claim()\n"
    (plugins_dir / "frozen.py").write_text(_LOSE_CLAIM + hook)
    town.add_document("one")
    town.start(3)
    town.work_on("compilation")
    assert _attempts(town) == [("fenced",)]
    assert not town.storage.database.exists(), "meetings.db was installed"


def test_deploy_begins_no_publication(town: Town) -> None:
    """The claim is lost after the build. The row would be newer than that of the worker that has the job now."""
    _in_deploy(town, "local")
    town.connection.execute(
        """
        create function lose_claim() returns trigger language plpgsql as $$
        begin update job_claims set holder = 'another worker' where settled_as is null; return new; end $$;
        create trigger lose_claim before update of pages on sites for each row execute function lose_claim();
        """
    )
    town.work_on("deploy")
    assert _attempts(town) == [("fenced",)]
    assert town.one("select count(*) from publications") == (0,), "a publication was begun"
    assert town.published.current is None


def test_deploy_calls_no_further_deployer(town: Town, plugins_dir: Path) -> None:
    for name, body in (("first", "lose_claim()"), ("second", "note('second')")):
        hook = f"@hookimpl\ndef deploy_municipality():\n    {body}\n"
        (plugins_dir / f"{name}.py").write_text(_LOSE_CLAIM + hook)
    _in_deploy(town, "first", "second")
    town.work_on("deploy")
    assert _attempts(town) == [("fenced",)]
    assert not (town.storage.root / "second").exists(), "the second deployer was called"


def test_a_deployer_learns_of_the_loss(town: Town, plugins_dir: Path) -> None:
    hook = (
        "@hookimpl\ndef deploy_municipality(check_claim):\n    lose_claim()\n    check_claim()\n    note('published')\n"
    )
    (plugins_dir / "slow.py").write_text(_LOSE_CLAIM + hook)
    _in_deploy(town, "slow")
    town.work_on("deploy")
    assert _attempts(town) == [("fenced",)]
    assert not (town.storage.root / "published").exists(), "the deployer published"


def test_local_deployer_does_not_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is lost while the database is copied."""
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path))
    site, published = SiteDocuments(tmp_path, "town"), SiteVersions(tmp_path / "_published", "town")

    def build(text: str) -> None:
        site.add(text, number=1)
        compile_site(site.storage, select(site.storage, list(site.candidates.values())))

    def fail() -> None:
        raise ClaimLost("job 1 no longer belongs to this worker")

    build("one")
    local.deploy_municipality("town", lambda: None)
    build("two")
    with contextlib.suppress(ClaimLost):
        local.deploy_municipality("town", fail)
    assert rows(published.link / "meetings.db", "select text from minutes") == [("one",)]
    assert [path.name for path in published.folder.iterdir() if path.name.startswith(".")] == []


CLAIM_GUARDS = (
    Guard(
        "claim check before the rename: compilation",
        compilation.build,
        "before_rename=job.heartbeat",
        "before_rename=None",
        test_compilation_does_not_install,
        "meetings.db was installed",
    ),
    Guard(
        "claim check before the row of the publication: deploy",
        deploy.deploy,
        "job.heartbeat(0, len(due))",
        "pass",
        test_deploy_begins_no_publication,
        "a publication was begun",
    ),
    Guard(
        "claim check before each deployer: deploy",
        deploy.deploy,
        "job.heartbeat(position, len(due))",
        "pass",
        test_deploy_calls_no_further_deployer,
        "the second deployer was called",
    ),
    Guard(
        "claim check for deployers: deploy",
        deploy._select_deployers,
        "check_claim=job.heartbeat",
        "check_claim=lambda: None",
        test_a_deployer_learns_of_the_loss,
        "the deployer published",
    ),
    Guard(
        "claim check before the version switch: local deployer",
        local.deploy_municipality,
        "before_switch=check_claim",
        "before_switch=None",
        test_local_deployer_does_not_switch,
        "two",
    ),
    Guard(
        "ClaimLost if the claim is lost: every claim check",
        JobContext.heartbeat,
        "if not engine.report_progress(connection, job.id, job.attempts, done, total):",
        "if engine.report_progress(connection, job.id, job.attempts, done, total) is None:",
        test_compilation_does_not_install,
        "meetings.db was installed",
    ),
)


@pytest.mark.parametrize("guard", CLAIM_GUARDS, ids=lambda guard: guard.name)
def test_without_the_guard_the_test_fails(guard: Guard, request: pytest.FixtureRequest) -> None:
    arguments = {name: request.getfixturevalue(name) for name in inspect.signature(guard.test).parameters}
    with removed(guard), pytest.raises(AssertionError, match=guard.failure):
        guard.test(**arguments)
