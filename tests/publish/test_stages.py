"""Phases 3 and 4 with a real worker: texts in, a published archive out."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path

import pytest

from clerk.archive.query import parse
from clerk.archive.search import SearchRequest
from clerk.extraction import cache, code_versions
from clerk.plugins import manager
from clerk.publish import publications
from clerk.publish.published_search import search_published
from clerk.publish.search_index import SearchIndex
from clerk.publish.versions import current_versions
from tests.archive.helpers import is_intact, rows, write_texts
from tests.publish.helpers import Town
from tests.s3 import BOTH_IF_LONG

STORAGES = BOTH_IF_LONG

MOTION = "Council Member Ann Lee moved to approve the budget. Council Member Bo Day seconded. The motion carried 4-1."


def test_texts_become_a_published_archive_with_people_and_votes(town: Town) -> None:
    town.add_document("Mayor Ellen Ortiz called the meeting to order.", MOTION)
    town.add_document("1. Roll call", kind="agenda")
    assert town.run() == "succeeded"
    database = town.published.database.resolve()
    assert is_intact(database)
    entities, votes = rows(database, "select entities_json, votes_json from minutes where page = 2")[0]
    assert {"text": "Ann Lee", "confidence": 0.95, "role": "Council Member"} in json.loads(entities)["persons"]
    (vote,) = json.loads(votes)["votes"]
    assert (vote["motion_by"], vote["seconded_by"], vote["result"]) == ("Ann Lee", "Bo Day", "passed")
    assert vote["tally"] == {"ayes": 4, "nays": 1, "abstain": None, "absent": None}
    assert town.one("select pages from sites") == (3,)
    (publication,) = town.connection.execute(
        "select p.pages, p.deployed_at is not null, p.announced_at is not null, s.step, s.name"
        " from publications p join publication_steps s on s.publication_id = p.id"
    ).fetchall()
    assert publication == (3, True, True, "deploy", "local")


def test_unchanged_content_is_not_published_again(town: Town) -> None:
    town.add_document("one")
    assert town.run() == "succeeded"
    first = town.published.current
    assert town.run() == "succeeded"
    assert town.published.current == first
    assert town.one("select count(*) from publications") == (1,)
    town.add_document("two", day=date(2024, 4, 2))
    assert town.run() == "succeeded"
    assert town.one("select count(*), count(distinct (run_id, content_hash)) from publications") == (2, 2)


def test_a_rollback_lasts_until_there_is_new_content(town: Town) -> None:
    town.add_document("one")
    town.run()
    town.add_document("two", day=date(2024, 4, 2))
    town.run()
    older = town.published.previous()
    newer = town.published.current
    assert newer is not None
    town.published.switch_to(older)
    publications.record_rollback(town.connection, "springfield", older.content_hash, [newer.content_hash], "me")
    town.run()
    assert town.published.current == older
    town.add_document("three", day=date(2024, 5, 7))
    town.run()
    assert town.published.current == town.published.versions()[-1]


def test_a_deploy_updates_the_search_index_and_does_not_depend_on_it(town: Town) -> None:
    town.add_document("The first ordinance")
    town.run()
    index = SearchIndex(town.published.root)
    assert not index.exists, "it is optional"
    index.build(current_versions(town.published.root))
    town.add_document("The second ordinance", day=date(2024, 4, 2))
    town.run()
    assert index.versions() == current_versions(town.published.root)
    request = SearchRequest(parse("ordinances"))
    assert index.search(request, None).total == 2
    (index.folder / "meta.json").write_text("{}")
    town.add_document("The third ordinance", day=date(2024, 5, 7))
    assert town.run() == "succeeded"
    assert search_published(town.published.root, request).total == 3


def test_a_missing_published_copy_is_published_again(town: Town) -> None:
    town.add_document("one")
    town.run()
    town.published.link.unlink()
    town.run()
    assert town.published.current is not None


def test_a_failed_extraction_does_not_stop_a_deploy(town: Town, plugins_dir: Path) -> None:
    (plugins_dir / "failing.py").write_text(
        "from clerk import hookimpl\n"
        "class Failing:\n"
        "    version = '1'\n"
        "    def extract(self, pages):\n"
        "        if 'poison' in pages[0][1]:\n"
        "            raise RuntimeError('extraction failed')\n"
        "        return {pages[0][0]: {'persons': [{'text': 'Somebody', 'confidence': 1}]}}\n"
        "@hookimpl\n"
        "def extractor(label):\n"
        "    return Failing() if label == 'failing' else None\n"
    )
    town.configure(extractor="failing")
    town.add_document("good")
    town.add_document("poison", day=date(2024, 4, 2))
    assert town.run() == "partial"
    database = town.published.database.resolve()
    assert rows(database, "select text, entities_json is null from minutes order by date") == [
        ("good", 0),
        ("poison", 1),
    ]
    ((stage, code, message),) = town.failures()
    assert (stage, code) == ("extraction", "PluginRaised")
    assert "failing" in message


@pytest.mark.parametrize("output", ["42", "{99: {}}", "{1: {'persons': 'x'}}", "{1: {'votes': [{}]}}", "None"])
def test_invalid_extractor_output_fails_its_document_only(town: Town, plugins_dir: Path, output: str) -> None:
    (plugins_dir / "invalid.py").write_text(
        "from clerk import hookimpl\n"
        "class Invalid:\n"
        "    version = '1'\n"
        f"    def extract(self, pages):\n        return {output}\n"
        "@hookimpl\n"
        "def extractor(label):\n"
        "    return Invalid() if label == 'invalid' else None\n"
    )
    town.configure(extractor="invalid")
    town.add_document("good")
    assert town.run() == "partial"
    ((_, code, message),) = town.failures()
    assert code == "InvalidExtractorOutput"
    assert "invalid" in message
    assert town.one("select attempt_count from content_item_pipeline_state where pipeline = 'extraction'") == (1,)


def test_an_unknown_extractor_is_reported(town: Town) -> None:
    town.configure(extractor="unknown")
    town.add_document("good")
    assert town.run() == "partial"
    ((_, code, message),) = town.failures()
    assert code == "PluginMissing"
    assert "unknown" in message


def test_a_document_is_extracted_once_for_each_text_and_version(
    town: Town, plugins_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = town.folder / "calls"
    (plugins_dir / "counting.py").write_text(
        "import os, pathlib\n"
        "from clerk import hookimpl\n"
        "class Counting:\n"
        "    @property\n"
        "    def version(self):\n        return os.environ['COUNTING']\n"
        "    def extract(self, pages):\n"
        f"        with open({str(counter)!r}, 'a') as file:\n            file.write('x')\n"
        "        return {}\n"
        "@hookimpl\n"
        "def extractor(label):\n"
        "    return Counting() if label == 'counting' else None\n"
    )
    town.configure(extractor="counting")
    document = town.add_document("text")
    calls = []
    for version, text in (("1", "text"), ("1", "text"), ("2", "text"), ("2", "another")):
        monkeypatch.setenv("COUNTING", version)
        if text != "text":
            write_texts(town.storage, document, [text])
        town.connection.execute("delete from content_item_pipeline_state where pipeline = 'extraction'")
        town.run()
        calls.append(len(counter.read_text()))
    assert calls == [1, 1, 2, 3]
    assert cache.load(town.storage.extracted(document)) is not None


def test_an_extractor_that_was_edited_without_a_new_version_is_reported_until_it_is_accepted(
    town: Town, plugins_dir: Path
) -> None:
    def run_with(version: str, name: str) -> list[tuple[str, str, int]]:
        (plugins_dir / "naming.py").write_text(
            "from clerk import hookimpl\n"
            "class Naming:\n"
            f"    version = {version!r}\n"
            "    def extract(self, pages):\n"
            f"        return {{pages[0][0]: {{'persons': [{{'text': {name!r}, 'confidence': 1}}]}}}}\n"
            "@hookimpl\n"
            "def extractor(label):\n"
            "    return Naming() if label == 'naming' else None\n"
        )
        manager._load.cache_clear()
        town.connection.execute("delete from content_item_pipeline_state where pipeline = 'extraction'")
        town.run()
        return town.connection.execute("select extractor, version, codes from edited_extractors").fetchall()

    town.configure(extractor="naming")
    town.add_document("text")
    assert run_with("1", "First Name") == []
    assert run_with("1", "Second Name") == [("naming", "1", 2)]
    assert "First Name" in rows(town.published.database.resolve(), "select entities_json from minutes")[0][0]
    assert code_versions.accept(town.connection, "naming") == 1
    assert run_with("1", "Second Name") == []
    assert run_with("1", "Third Name") == [("naming", "1", 2)]
    assert run_with("2", "Third Name") == [], "a new version ends it"


def test_a_failed_compilation_leaves_the_published_copy(town: Town, plugins_dir: Path) -> None:
    town.add_document("one")
    town.run()
    before = town.published.current
    (plugins_dir / "raising.py").write_text(
        "from clerk import hookimpl\n"
        "@hookimpl\n"
        "def post_compilation(subdomain, database_path, run_id):\n"
        "    assert database_path.is_file()\n"
        "    raise RuntimeError('no')\n"
    )
    manager._load.cache_clear()
    town.add_document("two", day=date(2024, 4, 2))
    content = town.storage.database.read_bytes()
    assert town.run() == "failed"
    assert town.published.current == before
    assert town.storage.database.read_bytes() == content
    ((stage, code, message),) = town.failures()
    assert (stage, code) == ("compilation", "PluginRaised")
    assert "raising" in message


def test_hooks_are_called_and_their_tables_are_published(town: Town, plugins_dir: Path) -> None:
    calls = town.folder / "calls"
    (plugins_dir / "adding.py").write_text(
        "import sqlite3\n"
        "from contextlib import closing\n"
        "from clerk import hookimpl\n"
        "def record(*words):\n"
        f"    with open({str(calls)!r}, 'a') as file:\n        print(*words, file=file)\n"
        "@hookimpl\n"
        "def pre_compilation(subdomain, run_id):\n    record('pre', subdomain)\n"
        "@hookimpl\n"
        "def post_compilation(subdomain, database_path):\n"
        "    record('post', subdomain)\n"
        "    with closing(sqlite3.connect(database_path)) as connection:\n"
        "        connection.execute('create table if not exists extra (text)')\n"
        "        connection.commit()\n"
        "@hookimpl\n"
        "def post_deploy(site):\n    record('deployed', site['subdomain'], site['pages'])\n"
    )
    town.add_document("one")
    assert town.run() == "succeeded"
    assert calls.read_text().splitlines() == ["pre springfield", "post springfield", "deployed springfield 1"]
    assert rows(town.published.database.resolve(), "select count(*) from extra") == [(0,)]


def test_a_deployer_gets_the_archive_as_a_file(town: Town, plugins_dir: Path) -> None:
    copy = town.folder / "copy.db"
    (plugins_dir / "copying.py").write_text(
        "import shutil\n"
        "from clerk import hookimpl\n"
        "@hookimpl\n"
        f"def deploy_municipality(database_path):\n    return str(shutil.copyfile(database_path, {str(copy)!r}))\n"
    )
    town.add_document("one")
    assert town.run() == "succeeded"
    assert rows(copy, "select text from minutes") == [("one",)]
    assert town.one("select result from publication_steps where name = 'copying'") == (str(copy),)


def test_a_failed_post_deploy_is_retried_without_deploying_again(town: Town, plugins_dir: Path) -> None:
    deploys, hooks = town.folder / "deploys", town.folder / "hooks"
    (plugins_dir / "flaky.py").write_text(
        "from clerk import hookimpl\n"
        "import pathlib\n"
        "def count(path):\n"
        "    with open(path, 'a') as file:\n        file.write('x')\n"
        "    return len(pathlib.Path(path).read_text())\n"
        f"@hookimpl\ndef deploy_municipality(subdomain):\n    return count({str(deploys)!r})\n"
        f"@hookimpl\ndef post_deploy(site):\n    assert count({str(hooks)!r}) > 2, 'not yet'\n"
    )
    (plugins_dir / "reliable.py").write_text(
        "from clerk import hookimpl\n"
        "@hookimpl\ndef post_deploy(site):\n"
        f"    with open({str(town.folder / 'reliable')!r}, 'a') as file:\n        file.write('x')\n"
    )
    town.add_document("one")
    assert town.run() == "succeeded"
    assert (deploys.read_text(), hooks.read_text(), (town.folder / "reliable").read_text()) == ("x", "xxx", "x")
    assert town.one("select count(*) from publications") == (1,)
    assert town.one("select result from publication_steps where step = 'deploy' and name = 'flaky'") == ("1",)


def test_an_unfinished_post_deploy_is_resumed_by_the_next_run(town: Town, plugins_dir: Path) -> None:
    state = town.folder / "state"
    (plugins_dir / "flaky.py").write_text(
        "from clerk import hookimpl\n"
        "import pathlib\n"
        f"@hookimpl\ndef post_deploy(site):\n    assert pathlib.Path({str(state)!r}).read_text() == 'working'\n"
    )
    state.write_text("failing")
    town.connection.execute("update stage_policy set max_attempts = 2 where stage = 'deploy'")
    town.add_document("one")
    assert town.run() == "failed"
    assert town.published.current is not None
    state.write_text("working")
    assert town.run() == "succeeded"
    assert town.one("select count(*), count(announced_at) from publications") == (1, 1)


def test_a_failing_deployer_does_not_repeat_the_other_deployer(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = town.folder / "calls"
    script = town.folder / "deploy.py"
    script.write_text(
        "import os, sys, pathlib\n"
        f"calls = pathlib.Path({str(calls)!r})\n"
        "with calls.open('a') as file: file.write(os.environ['CLERK_SITE'] + ' ' + sys.argv[-1] + '\\n')\n"
        "sys.exit(0 if len(calls.read_text().splitlines()) > 2 else 'not yet')\n"
    )
    monkeypatch.setenv("CLERK_DEPLOY_COMMAND", f"{sys.executable} {script}")
    town.configure(deploy=["local", "command"])
    town.add_document("one")
    assert town.run() == "succeeded"
    lines = calls.read_text().splitlines()
    assert [line.rpartition("/")[2] for line in lines] == ["meetings.db"] * 3
    if isinstance(town.storage.root, Path):
        assert lines == [f"springfield {town.storage.database}"] * 3
    assert len(town.published.versions()) == 1
    assert town.one("select count(*) from publication_steps") == (2,)


def test_an_added_deployer_publishes_existing_content(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLERK_DEPLOY_COMMAND", f"{sys.executable} -c pass")
    town.configure(deploy="local")
    town.add_document("one")
    town.run()
    town.configure(deploy=["local", "command"])
    town.run()
    assert town.connection.execute("select name from publication_steps order by publication_id, name").fetchall() == [
        ("local",),
        ("command",),
    ]


def test_a_site_without_deployers(town: Town) -> None:
    town.configure(deploy=["none"])
    town.add_document("one")
    assert town.run() == "succeeded"
    assert town.published.current is None
    assert is_intact(town.storage.database)


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ('{"deploy": ["unknown"]}', "DeployerUnknown"),
        ('{"deploy": 42}', "SiteConfigError"),
        ('{"deploy": [{}]}', "SiteConfigError"),
        ("[", "SiteConfigError"),
        ('{"deploy": ["command"]}', "CommandUnset"),
    ],
)
def test_an_invalid_deploy_setting_fails_without_retries(town: Town, extra: str, code: str) -> None:
    town.connection.execute("update sites set extra = %s", [extra])
    town.add_document("one")
    assert town.run() == "failed"
    assert [failure[:2] for failure in town.failures()] == [("deploy", code)]
    assert town.one("select attempt_count from content_item_pipeline_state where pipeline = 'deploy'") == (1,)


def test_missing_texts_fail_the_compilation_and_keep_the_published_copy(town: Town) -> None:
    document = town.add_document("one")
    town.run()
    before = town.published.current
    for path in town.storage.texts(document).iterdir():
        path.unlink()
    town.connection.execute("delete from content_item_pipeline_state where pipeline = 'extraction'")
    assert town.run() == "failed"
    assert town.published.current == before
    assert [failure[:2] for failure in town.failures()] == [
        ("compilation", "AllTextsMissing"),
        ("extraction", "TextsMissing"),
    ]
