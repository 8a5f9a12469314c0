"""Every command of the runbooks is run here against a real, small installation.

Those that need another machine than a test has (systemd, the operator's own checkout) are listed below with the reason;
of them it is checked that what they name exists.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import psycopg
import pytest
import yaml

from tests.docker.compose import parsed
from tests.runbooks.conftest import Installation
from tests.runbooks.pages import FOLDER, PAGES, ROOT, blocks, commands, everything
from tests.systemd.units import UNITS

LANGUAGES = {
    "console": "run, line by line",
    "sql": "run",
    "sh": "not run: see NOT_RUN",
    "conf": "settings of Postgres; their names and values are checked by Postgres",
}
NOT_RUN = {
    "systemctl": "no systemd runs in a test; its units exist",
    "journalctl": "no systemd runs in a test; its units exist",
    "git": "would change the checkout",
    "/opt/clerk/bin/setup": "would set up another checkout; bin/setup has tests of its own",
    "clerk rollback": "needs two published versions; tests/archive does it",
}


@pytest.mark.timeout(900)  # a dozen commands a page, each a process of its own
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_every_command_works(page: str, installation: Installation, restored_url: str) -> None:
    done = installation.run(f"export RESTORED_URL='{restored_url}'\n" + "\n".join(commands(page)))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_command_that_fails_would_be_seen(installation: Installation) -> None:
    done = installation.run("clerk status\nclerk site show nowhere\nclerk verify")
    assert done.returncode != 0
    assert "clerk site show nowhere" in done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "sql" for block in blocks(page))])
def test_every_query_works(page: str, installation: Installation) -> None:
    with psycopg.connect(installation.database, autocommit=True) as connection:
        for block in blocks(page):
            if block.language == "sql":
                connection.execute(block.text.encode())


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert {block.language for block in everything()} <= LANGUAGES.keys()
    for block in everything():
        if block.language == "console":
            assert all(line.startswith("$ ") for line in block.text.splitlines()), block


def _without_blocks(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


IN_SENTENCES = sorted(
    {
        " ".join(command.split())
        for page in PAGES
        for command in re.findall(r"`(clerk [a-z][^`]*)`", _without_blocks((FOLDER / page).read_text(encoding="utf-8")))
    }
)


@pytest.mark.parametrize("command", IN_SENTENCES)
def test_a_command_within_a_sentence_exists(command: str) -> None:
    """With names of things to fill in, so it is not run; those in blocks are."""
    parsed(command.replace("NUMBER", "8").replace("QUEUE", "ocr"))


NEVER_RUN = [line for block in everything() if block.language == "sh" for line in block.text.splitlines()]


@pytest.mark.parametrize("line", NEVER_RUN)
def test_what_is_not_run_is_listed_and_names_what_exists(line: str) -> None:
    words = shlex.split(line)
    assert words[0] in NOT_RUN or " ".join(words[:2]) in NOT_RUN, f"{line}: run it, or list the reason"
    if words[0] == "clerk":
        parsed(line)
    for word in words:
        if re.match(r"clerk[\w-]*[@.]", word):
            assert re.sub(r"@(\w+|\*)", "@", word.removesuffix(".service")) + _kind(word) in UNITS, word


def _kind(word: str) -> str:
    return "" if word.endswith((".timer", ".target")) else ".service"


def test_the_list_has_nothing_that_is_not_needed() -> None:
    said = "\n".join(NEVER_RUN)
    assert [name for name in NOT_RUN if name not in said] == []


def test_settings_of_postgres_are_understood(connection: psycopg.Connection) -> None:
    lines = [line for block in everything() if block.language == "conf" for line in block.text.splitlines() if line]
    assert lines
    for line in lines:
        name, value = (part.strip() for part in line.partition("#")[0].split("=", 1))
        row = connection.execute("select context from pg_settings where name = %s", [name]).fetchone()
        assert row is not None, name
        if row[0] in ("user", "superuser"):
            connection.execute("select set_config(%s, %s, false)", [name, value])


def test_the_entry_page_links_every_runbook() -> None:
    entry = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    assert [page for page in PAGES if f"(runbooks/{page})" not in entry] == []


LINK = re.compile(r"\]\(([^)#]+\.\w+)(?:#[\w-]+)?\)")


@pytest.mark.parametrize(
    "page", [*(FOLDER / page for page in PAGES), ROOT / "systemd/README.md", ROOT / "docs/operating.md"]
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


RULES = yaml.safe_load((ROOT / "docs" / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


def test_every_alert_is_explained_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| .+ \| .+ \|$", (FOLDER / "alerts.md").read_text(), re.MULTILINE)
    assert dict(rows) == {rule["alert"]: rule["labels"]["severity"] for rule in RULES}
    assert len(rows) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_asks_for_metrics_that_there_are(rule: dict[str, str]) -> None:
    """By name and labels, as docs/metrics.md lists them."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    there = {name: set(re.findall(r"\w+", labels)) for name, labels in re.findall(r"\| `(\w+)(\{.*?\})?` \|", page)}
    asked = re.findall(r"\b(clerk_\w+)(?:\{(\w+)=)?", rule["expr"])
    assert asked
    for name, label in asked:
        assert name in there
        assert not label or label in there[name]
