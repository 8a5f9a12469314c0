"""The documentation for readers: its commands work, its links lead somewhere, and no page is out of reach."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import click
import psycopg
import pytest
from fpdf import FPDF

from clerk.cli import cli
from tests.conftest import Url
from tests.runbooks.conftest import Installation
from tests.runbooks.pages import ROOT, blocks, commands

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
GUIDES = [page for page in PAGES if page.parent.name == "how-to" or page.name == "quick-start.md"]
AS_A_STRANGER = """unset DATABASE_URL CLERK_HOME STORAGE_DIR
trap 'kill $(jobs -p) 2>/dev/null || true; clerk db stop --force >/dev/null' EXIT"""
"""With a database of clerk's own, which the first command makes and the last line takes down again."""
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([\w-]+))?\)")


def test_the_index_leads_to_every_page() -> None:
    entry = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [str(page) for page in PAGES if page.name != "README.md" and f"({page})" not in entry] == []


@pytest.mark.parametrize("page", [*map(str, PAGES), "../README.md", "../sql/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = DOCS / page
    for target, part in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        found = path.parent / target
        assert found.exists(), target
        if part:
            titles = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert part in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles], (target, part)


COMMANDS = sorted(
    {
        " ".join(command.split())
        for page in PAGES
        for command in re.findall(
            r"`(clerk [a-z][^`]*)`",
            re.sub(r"```.*?```", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL),
        )
        if "…" not in command and page.name != "commands.md"
    }
)


@pytest.mark.parametrize("sentence", COMMANDS)
def test_a_command_within_a_sentence_exists(sentence: str) -> None:
    """By name and options: what is to be filled in cannot be run."""
    words = sentence.split()[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        name = words.pop(0)
        if name.startswith("-"):
            continue
        found = command.get_command(context, name)
        assert found, name
        command = found
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    asked = {word.strip("[],") for word in words if word.startswith(("--", "[--"))}
    assert asked <= options | {"--help", "--debug"}


@pytest.mark.parametrize("guide", [guide for guide in GUIDES if commands(str(DOCS / guide))], ids=str)
def test_every_command_of_a_guide_works(guide: Path, installed: Installation) -> None:
    page = str(DOCS / guide)
    for block in blocks(page):
        if block.language == "python":
            name = block.text.partition("\n")[0].removeprefix("# ")
            (installed.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (installed.folder / name).write_text(block.text, encoding="utf-8")
    script = "\n".join(commands(page)).replace("8765", str(_free_port()))
    done = installed.run(f"{AS_A_STRANGER}\n{script}")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if guide.name == "plugin-author.md":
        assert "City Council, 2024-03-05, minutes, page 1" in done.stdout
        assert "which is not a day" in done.stderr


@pytest.mark.parametrize("guide", GUIDES, ids=str)
def test_every_query_of_a_guide_works(guide: Path, connection: psycopg.Connection) -> None:
    for block in blocks(str(DOCS / guide)):
        if block.language == "sql":
            connection.execute(block.text.encode())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def installed(database: Url, tmp_path: Path) -> Installation:
    """A reader's folder: documents, and bin/clerk."""
    installation = Installation(database, tmp_path)
    council = tmp_path / "minutes" / "City Council"
    council.mkdir(parents=True)
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica")
    pdf.multi_cell(0, text="The council found money for bike lanes in the budget of the year. " * 20)
    pdf.output(str(council / "2024-03-05.pdf"))
    (council / "2024-03-12.pdf").write_bytes(b"<html>moved</html>")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "clerk").symlink_to(Path(sys.executable).with_name("clerk"))
    return installation
