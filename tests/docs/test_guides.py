"""The documentation: its commands run, its links resolve, and the index lists every page."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import click
import pytest
from fpdf import FPDF

from clerk.cli import cli
from tests.conftest import Url
from tests.docs import errors_page, reliability_page
from tests.runbooks.conftest import Installation
from tests.runbooks.pages import DOCS, ROOT, blocks, commands

PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
TOP_LEVEL = ["../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../sql/README.md"]
GUIDES = ["quick-start.md", "plugins.md", "how-to/plugin-author.md"]
WITHOUT_SETTINGS = """unset DATABASE_URL CLERK_HOME STORAGE_DIR
trap 'kill $(jobs -p) 2>/dev/null || true; clerk db stop --force >/dev/null' EXIT"""
"""Uses the embedded database, and stops it at the end."""
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([\w-]+))?\)")


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def test_the_index_links_every_page() -> None:
    index = read("README.md")
    assert [page for page in PAGES if not page.endswith("README.md") and f"({page})" not in index] == []


def test_the_errors_page_is_current() -> None:
    assert errors_page.PAGE.read_text(encoding="utf-8") == errors_page.page(), "run: python -m tests.docs.errors_page"


def test_the_table_of_guards_is_current() -> None:
    page = reliability_page.PAGE.read_text(encoding="utf-8")
    assert page == reliability_page.with_table(page), "run: python -m tests.docs.reliability_page"


@pytest.mark.parametrize("page", [*PAGES, *TOP_LEVEL, "../systemd/README.md"])
def test_links_resolve(page: str) -> None:
    path = DOCS / page
    for target, fragment in LINK.findall(read(page)):
        if "://" in target:
            continue
        linked = path.parent / target if target else path
        assert linked.exists(), target
        if fragment:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert fragment in anchors, (target, fragment)


def test_paths_in_the_architecture_exist() -> None:
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        named = re.findall(r"`((?:clerk|sql|tests|bin|docs)/[\w./-]+)`", (ROOT / page).read_text(encoding="utf-8"))
        assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_architecture_names_every_package() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = [
        f"{path.stem}.py" if path.is_file() else f"{path.name}/"
        for path in (ROOT / "clerk").iterdir()
        if (path.suffix == ".py" or path.is_dir()) and not path.name.startswith(("_", "."))
    ]
    assert [module for module in modules if f"`{module}`" not in page] == []


def test_every_claim_about_security_names_tests_that_exist() -> None:
    claims = read("security.md").partition("## Claims")[2].partition("## Dependencies")[0]
    rows = [line for line in claims.splitlines() if re.match(r"\| (?!claim|---)", line)]
    assert rows
    assert [row for row in rows if "::test_" not in row] == [], "a claim without a test"
    missing = [
        f"{file}::{test}"
        for file, test in re.findall(r"`(tests/[^`:]+)::(\w+)`", read("security.md"))
        if not re.search(rf"(?m)^ *def {test}\(", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


COMMANDS = sorted(
    {
        " ".join(command.split())
        for page in [*PAGES, *TOP_LEVEL]
        for command in re.findall(r"`(clerk [a-z][^`]*)`", re.sub(r"```.*?```", "", read(page), flags=re.DOTALL))
        if "…" not in command and page != "commands.md"
    }
)


@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_within_a_sentence_exists(text: str) -> None:
    """Checks names and options only: placeholders cannot be run."""
    words = text.split()[1:]
    command: click.Command = cli
    # With the group's settings: Click caches the names of a command's help option.
    context = click.Context(cli, **cli.context_settings)
    while isinstance(command, click.Group) and words:
        if words[0].startswith("-") and command.invoke_without_command and command is not cli:
            break  # the options of a group that is also a command
        name = words.pop(0)
        if name.startswith("-"):
            continue
        subcommand = command.get_command(context, name)
        assert subcommand, name
        command = subcommand
    parameters = command.get_params(context)
    options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.strip("[],") for word in words if word.startswith(("--", "[--"))}
    assert used <= options | {"--help", "--debug"}


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_of_a_guide_works(guide: str, installed: Installation) -> None:
    for block in blocks(guide):
        if block.language == "python":
            name = block.text.partition("\n")[0].removeprefix("# ")
            (installed.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (installed.folder / name).write_text(block.text, encoding="utf-8")
    script = "\n".join(commands(guide)).replace("8765", str(_free_port()))
    done = installed.run(f"{WITHOUT_SETTINGS}\n{script}")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if guide == "plugins.md":
        assert "City Council, 2024-03-05, minutes, page 1" in done.stdout
        assert "april.pdf has no date in its listing, and it cannot be downloaded" in done.stderr
    if guide == "how-to/plugin-author.md":
        assert "1 passed" in done.stdout
        assert "1 document listed, 1 downloaded" in done.stdout
        assert '"url": "http://127.0.0.1' in done.stdout


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def installed(database: Url, tmp_path: Path) -> Installation:
    """A user's folder: documents, and bin/clerk."""
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
