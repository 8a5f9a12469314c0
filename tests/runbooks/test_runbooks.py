"""Runs every command of docs/operating.md and the runbooks against a small installation.

Commands that cannot run in a test are listed in NOT_RUN with the reason; for those the tests check that what they name
exists.
"""

from __future__ import annotations

import re
import shlex

import psycopg
import pytest
import yaml

from clerk.db.connection import connect_to
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from tests.docker.compose import parsed
from tests.runbooks.conftest import Installation
from tests.runbooks.pages import DOCS, PAGES, ROOT, RUNBOOKS, all_blocks, blocks, commands
from tests.systemd.units import UNITS

LANGUAGES = {
    "console": "run, line by line",
    "sql": "run",
    "sh": "not run: see NOT_RUN",
    "conf": "settings of Postgres; their names and values are checked by Postgres",
}
NOT_RUN = {
    "systemctl": "a test has no systemd",
    "journalctl": "a test has no systemd",
    "git": "would change the checkout",
    "/opt/clerk/bin/setup": "would set up another checkout; tests/setup runs bin/setup",
    "clerk rollback": "needs two published versions; tests/archive runs it",
}


@pytest.mark.timeout(900)  # a dozen commands per page, one process each
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_every_command_works(page: str, installation: Installation, restored_url: str) -> None:
    done = installation.run(f"export RESTORED_URL='{restored_url}'\n" + "\n".join(commands(page)))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_failing_command_fails_the_page(installation: Installation) -> None:
    done = installation.run("clerk status\nclerk site show nowhere\nclerk verify")
    assert done.returncode != 0
    assert "clerk site show nowhere" in done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "sql" for block in blocks(page))])
def test_every_query_works(page: str, installation: Installation) -> None:
    with psycopg.connect(installation.database, autocommit=True) as connection:
        for block in blocks(page):
            if block.language == "sql":
                connection.execute(block.text.encode())


def test_every_block_has_a_language_that_is_checked() -> None:
    assert {block.language for block in all_blocks()} <= LANGUAGES.keys()
    for block in all_blocks():
        if block.language == "console":
            assert all(line.startswith("$ ") for line in block.text.splitlines()), block


def _without_blocks(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


IN_SENTENCES = sorted(
    {
        " ".join(command.split())
        for page in RUNBOOKS
        for command in re.findall(r"`(clerk [a-z][^`]*)`", _without_blocks((DOCS / page).read_text(encoding="utf-8")))
    }
)


@pytest.mark.parametrize("command", IN_SENTENCES)
def test_a_command_within_a_sentence_exists(command: str) -> None:
    """Has placeholders, so it is parsed and not run; commands in blocks are run."""
    parsed(command.replace("NUMBER", "8").replace("QUEUE", "ocr"))


NEVER_RUN = [line for block in all_blocks() if block.language == "sh" for line in block.text.splitlines()]


@pytest.mark.parametrize("line", NEVER_RUN)
def test_a_command_that_is_not_run_has_a_reason_and_names_what_exists(line: str) -> None:
    words = shlex.split(line)
    assert words[0] in NOT_RUN or " ".join(words[:2]) in NOT_RUN, f"{line}: run it, or list the reason"
    if words[0] == "clerk":
        parsed(line)
    for word in words:
        if re.match(r"clerk[\w-]*[@.]", word):
            assert re.sub(r"@(\w+|\*)", "@", word.removesuffix(".service")) + _kind(word) in UNITS, word


def _kind(word: str) -> str:
    return "" if word.endswith((".timer", ".target")) else ".service"


def test_every_reason_is_needed() -> None:
    lines = "\n".join(NEVER_RUN)
    assert [name for name in NOT_RUN if name not in lines] == []


def test_postgres_accepts_the_settings(connection: psycopg.Connection) -> None:
    lines = [line for block in all_blocks() if block.language == "conf" for line in block.text.splitlines() if line]
    assert lines
    for line in lines:
        name, value = (part.strip() for part in line.partition("#")[0].split("=", 1))
        row = connection.execute("select context from pg_settings where name = %s", [name]).fetchone()
        assert row is not None, name
        if row[0] in ("user", "superuser"):
            connection.execute("select set_config(%s, %s, false)", [name, value])


def test_the_entry_page_links_every_runbook() -> None:
    entry = (DOCS / "operating.md").read_text(encoding="utf-8")
    assert [page for page in RUNBOOKS if f"({page})" not in entry] == []


RULES = yaml.safe_load((ROOT / "docs" / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


def test_exactly_the_existing_alerts_are_explained_where_their_link_points() -> None:
    """A section is `### kind`, and then a line for the rule of Prometheus, if there is one."""
    page = (DOCS / "runbooks" / "alerts.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### (\w+)\n\nPrometheus: `(\w+)` \((\w+)\)\.$", page, re.MULTILINE)
    assert {rule: (f"docs/runbooks/alerts.md#{kind.lower()}", severity) for kind, rule, severity in sections} == {
        rule["alert"]: (rule["annotations"]["runbook_url"], rule["labels"]["severity"]) for rule in RULES
    }
    assert page.count("\nPrometheus: ") == len(sections) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_uses_existing_metrics(rule: dict[str, str]) -> None:
    """Names and labels as in docs/metrics.md."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    existing = {name: set(re.findall(r"\w+", labels)) for name, labels in re.findall(r"\| `(\w+)(\{.*?\})?` \|", page)}
    used = re.findall(r"\b(clerk_\w+)(?:\{(\w+)=)?", rule["expr"])
    assert used
    for name, label in used:
        assert name in existing
        assert not label or label in existing[name]


def test_the_runbooks_say_when_to_go_back_and_to_keep_the_ledger(database: str, folder: SqlFolder) -> None:
    for page in ("runbooks/deployment.md", "legacy.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert re.search(r"^##+ When to (go back|revert)$", text, re.MULTILINE), page
        assert "**Keep the ledger" in text, page
        assert "--table=content_items --table=content_item_pipeline_state" in text, page
    with connect_to(database) as connection:
        connection.execute("insert into sites (subdomain) values ('town')")
        connection.execute("insert into content_items (subdomain, kind) values ('town', 'archive')")
        connection.execute(
            "insert into content_item_pipeline_state (content_item_id, pipeline) select id, 'fetch' from content_items"
        )
        assert "content_item_pipeline_state" not in Migrator(connection, folder).data_loss(3)
        assert "content_item_pipeline_state" in Migrator(connection, folder).data_loss(2)
