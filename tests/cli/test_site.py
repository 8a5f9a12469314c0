"""`clerk site` and `clerk plugins`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from clerk.cli import cli
from clerk.documents.sanitize import is_subdomain
from clerk.errors import ClerkError
from clerk.pipeline import engine
from clerk.plugins import manager
from tests.conftest import Databases
from tests.engine.helpers import connect_worker

Clerk = Callable[..., Result]


@pytest.fixture(scope="module")
def shared_database(server: str, template: str) -> Iterator[str]:
    """One database for all tests of this file; the fixture `database` empties it."""
    databases = Databases(server)
    yield databases.create(template)
    databases.drop_all()


@pytest.fixture
def database(shared_database: str) -> str:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute("truncate sites cascade")
        connection.execute("delete from procrastinate_jobs")
    return shared_database


@pytest.fixture
def clerk(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clerk]:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    monkeypatch.delenv("CLERK_PLUGINS_DIR", raising=False)
    manager._load.cache_clear()
    yield lambda *arguments, **options: CliRunner().invoke(cli, arguments, **options)
    manager._load.cache_clear()


def error_of(result: Result) -> str:
    assert isinstance(result.exception, ClerkError)
    assert result.exception.exit_code == 2
    return str(result.exception)


ADD = ["site", "add", "springfield", "--name", "Springfield", "--state", "IL", "--kind", "city"]
ADD += ["--scraper", "legistar"]
EXTRA = ["--extra", '{"client": "springfield"}']


def test_add_show_list(clerk: Clerk) -> None:
    added = clerk(*ADD, *EXTRA)
    assert added.stdout == "springfield: added\n"
    assert "clerk up" in added.stderr
    result = json.loads(clerk("site", "show", "springfield", "--json").output)
    assert result["extra"] == {"client": "springfield"}
    assert (result["name"], result["state"], result["kind"]) == ("Springfield", "IL", "city")
    states = ("total", "processed", "failed", "superseded", "removed_at_source")
    assert result["documents"] == dict.fromkeys(states, 0)
    assert "legistar" in clerk("site", "show", "springfield").output
    assert [row["subdomain"] for row in json.loads(clerk("site", "list", "--json").output)] == ["springfield"]
    assert json.loads(clerk("site", "list", "--state", "CA", "--json").output) == []
    assert "Springfield" in clerk("site", "list").output
    assert "already" in error_of(clerk(*ADD, *EXTRA))


def test_a_dry_run_changes_nothing(clerk: Clerk) -> None:
    assert "dry run" in clerk(*ADD, *EXTRA, "--dry-run", "--no-check").output
    assert json.loads(clerk("site", "list", "--json").output) == []
    clerk(*ADD, *EXTRA)
    assert "name was Springfield, is X" in clerk("site", "edit", "springfield", "--name", "X", "--dry-run").output
    clerk("site", "remove", "springfield", "--dry-run")
    assert json.loads(clerk("site", "list", "--json").output)[0]["name"] == "Springfield"


@pytest.mark.parametrize(
    "name",
    ["", "Spring", "a b", "-a", "a-", ".a", "a..b", "../etc", "a/b", "a_b", "é", "a" * 64, "a\n", "a\0", "%s"],
)
def test_invalid_subdomains(clerk: Clerk, name: str) -> None:
    assert not is_subdomain(name)
    assert "subdomain" in error_of(clerk("site", "add", "--name", "x", "--", name)).lower()


@pytest.mark.parametrize("name", ["a", "7", "a.b", "los-angeles.ca", "a" * 63])
def test_valid_subdomains(name: str) -> None:
    assert is_subdomain(name)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--name", "two\nlines"),
        ("--name", "x" * 201),
        ("--state", "C4"),
        ("--kind", "City!"),
        ("--scraper", "no such/label"),
        ("--scraper", "unknown"),
        ("--start-year", "1492"),
        ("--start-year", "soon"),
        ("--extra", "{broken"),
        ("--extra", "[]"),
        ("--lat", "91"),
        ("--lng", "west"),
        ("--weight", "0"),
        ("--weight", "101"),
        ("--weight", "1.5"),
        ("--cadence", "sometimes"),
        ("--cadence", "0"),
        ("--client", "a/b"),
        ("--languages", "english"),
        ("--deploy", "nowhere"),
        ("--extractor", "nothing"),
    ],
)
def test_invalid_values(clerk: Clerk, option: str, value: str) -> None:
    source = [] if option == "--scraper" else ["--scraper", "legistar"]
    source += [] if option == "--extra" else ["--client", "springfield"]
    error_of(clerk("site", "add", "springfield", *source, option, value))
    assert json.loads(clerk("site", "list", "--json").output) == []


def test_the_fetcher_validates_extra(clerk: Clerk) -> None:
    assert "'client'" in error_of(clerk(*ADD))
    clerk(*ADD, *EXTRA)
    assert "'client'" in error_of(clerk("site", "edit", "springfield", "--extra", "{}"))


def test_edit(clerk: Clerk) -> None:
    clerk(*ADD, *EXTRA)
    changed = json.loads(clerk("site", "edit", "springfield", "--name", "X", "--state", "", "--json").output)["changed"]
    assert changed == {"name": {"before": "Springfield", "after": "X"}, "state": {"before": "IL", "after": None}}
    assert "nothing to do" in clerk("site", "edit", "springfield", "--name", "X").output
    assert "no site" in error_of(clerk("site", "edit", "nowhere", "--name", "X"))
    shown = clerk("site", "edit", "springfield")
    assert shown.exit_code == 0
    assert "--name X\n  --kind city\n  --scraper legistar\n" in shown.output
    assert "--client springfield\n" in shown.output
    assert "weight was 1, is 3" in clerk("site", "edit", "springfield", "--weight", "3").output
    changed = json.loads(clerk("site", "edit", "springfield", "--weight", "", "--json").output)["changed"]
    assert changed == {"weight": {"before": 3, "after": 1}}


def test_a_record_of_many_sites_says_how_many_it_does_not_list(clerk: Clerk, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("insert into sites (subdomain) select format('town-%s', n) from generate_series(1, 25) n")
        clerk("update", "--all")
        row = connection.execute("select detail from recent_actions where action = 'update'").fetchone()
    assert row is not None
    assert (row[0]["count"], len(row[0]["sites"]), row[0]["not_listed"]) == (25, 20, 5)


def test_changes_are_recorded_as_operator_actions(clerk: Clerk, database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("delete from operator_actions")
        clerk(*ADD, *EXTRA, "--dry-run")
        clerk(*ADD, *EXTRA)
        clerk("site", "edit", "springfield", "--name", "X")
        clerk("site", "edit", "springfield", "--name", "X")
        clerk("site", "edit", "springfield", "--name", "Y", "--dry-run")
        clerk("update", "springfield")
        clerk("site", "remove", "springfield", "--yes")
        (tmp_path / "sites.csv").write_text("subdomain\na\n")
        clerk("site", "import", str(tmp_path / "sites.csv"))
        clerk("update", "--all")
        clerk("new", "b", "--yes")
        rows = connection.execute(
            "select action, subdomain, run_id is not null, detail from recent_actions where via = 'cli'"
        ).fetchall()
    assert rows[::-1] == [
        ("add site", "springfield", False, {"scraper": "legistar"}),
        ("edit site", "springfield", False, {"columns": ["name"]}),
        ("update", "springfield", True, {}),
        *(row for row in rows if row[0] == "cancel"),
        ("remove site", "springfield", False, {"documents": 0, "runs": 1}),
        ("add site", "a", False, {"scraper": None}),
        ("update", None, False, {"sites": ["a"], "count": 1}),
        ("add site", "b", True, {"scraper": None}),
    ]


def test_remove_keeps_the_files_by_default(clerk: Clerk, tmp_path: Path, connection: psycopg.Connection[Any]) -> None:
    file = tmp_path / "storage/springfield/pdfs/a.pdf"
    file.parent.mkdir(parents=True)
    file.touch()
    clerk(*ADD, *EXTRA)
    engine.start_run(connection, "springfield")
    assert clerk("site", "remove", "springfield", input="n\n").exit_code == 1
    assert "kept" in clerk("site", "remove", "springfield", input="y\n").output
    assert file.exists()
    assert connection.execute("select count(*) from procrastinate_jobs where status = 'todo'").fetchone() == (0,)
    assert "no site" in error_of(clerk("site", "remove", "springfield", "--yes"))
    clerk(*ADD, *EXTRA)
    assert "deleted" in clerk("site", "remove", "springfield", "--files", "--yes").output
    assert not (tmp_path / "storage/springfield").exists()
    assert (tmp_path / "storage").exists()


CSV = 'subdomain,name,state,scraper,extra\na,A,CA,legistar,"{""client"": ""a""}"\nb,B,,,\n'
JSON = json.dumps([{"subdomain": "a", "scraper": "legistar", "extra": {"client": "a"}}, {"subdomain": "b"}])
LINES = '{"subdomain": "a", "extra": {"client": "a"}, "scraper": "legistar"}\n{"subdomain": "b"}\n'


@pytest.mark.parametrize("text", [CSV, JSON, LINES], ids=["csv", "json", "lines"])
def test_import(clerk: Clerk, tmp_path: Path, text: str) -> None:
    file = tmp_path / "sites"
    file.write_text(text)
    assert "2 added" in clerk("site", "import", str(file), "--dry-run").output
    assert json.loads(clerk("site", "import", str(file), "--json").output)["added"] == ["a", "b"]
    assert json.loads(clerk("site", "show", "a", "--json").output)["extra"] == {"client": "a"}
    assert "2 unchanged" in clerk("site", "import", str(file)).output
    assert "2 changed" in clerk("site", "import", str(file), "--update").output


@pytest.mark.parametrize(
    "text",
    [
        "subdomain,name\nok,fine\nNOT OK,x\n",
        "subdomain,colour\na,red\n",
        "name\nx\n",
        '[{"subdomain": "a"}, 5]',
        "[broken",
        '[{"subdomain": "a"}, {"subdomain": "a"}]',
        '[{"subdomain": "a", "scraper": "legistar"}]',
    ],
)
def test_import_is_all_or_nothing(clerk: Clerk, tmp_path: Path, text: str) -> None:
    file = tmp_path / "sites"
    file.write_text(text)
    error_of(clerk("site", "import", str(file)))
    assert json.loads(clerk("site", "list", "--json").output) == []


PLUGIN = """
import click
from clerk import hookimpl

@hookimpl
def post_create(subdomain):
    if subdomain == "unlucky":
        raise OSError("no room")
    print("welcome", subdomain)

@hookimpl
def register_cli_commands():
    @click.command("hello")
    def hello():
        "Greet."
        click.echo("hello from a plugin")
    @click.command("status")
    def status():
        click.echo("must not replace the built-in command")
    return [hello, status]
"""


def test_plugins_add_commands_and_are_called_for_new_sites(clerk: Clerk, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "mine.py").write_text(PLUGIN)
    (folder / "bad.py").write_text("1 / 0\n")
    given = ("--plugins-dir", str(folder))
    listed = clerk(*given, "plugins", "--json")
    assert listed.exit_code == 1
    report = json.loads(listed.stdout)
    assert ["mine", str(folder / "mine.py")] in [[plugin["name"], plugin["origin"]] for plugin in report["plugins"]]
    error = f"ZeroDivisionError: division by zero ({folder / 'bad.py'}, line 1, in <module>)"
    assert report["problems"] == [{"name": "bad", "origin": str(folder / "bad.py"), "error": error}]
    assert clerk(*given, "plugins").stderr.count("division by zero") == 1
    assert clerk(*given, "hello").output == "hello from a plugin\n"
    assert "hello" in clerk(*given, "--help").output
    assert "must not" not in clerk(*given, "status").output
    source = ("--scraper", "legistar", "--client", "x")
    assert clerk(*given, "site", "add", "lucky", *source).exit_code == 0
    unlucky = clerk(*given, "site", "add", "unlucky", *source)
    assert unlucky.exit_code == 1
    assert "unlucky was added, but plugin mine raised in post_create: OSError: no room" in unlucky.stderr
    os.environ.pop("CLERK_PLUGINS_DIR", None)


def test_the_keys_of_a_fetcher(clerk: Clerk) -> None:
    assert "client (required)" in clerk("plugins", "--fetcher", "legistar").output
    assert json.loads(clerk("plugins", "--fetcher", "links", "--json").output)["required"] == ["pages"]
    assert "unknown" in error_of(clerk("plugins", "--fetcher", "unknown"))


def test_errors_are_one_sentence_without_a_traceback(database: str) -> None:
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-m", "clerk", "site", "add", "Not A Name"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root), "DATABASE_URL": database},
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.startswith(
        "clerk: 'Not A Name' is not a valid subdomain: use not-a-name, or other lower-case letters"
    )
    assert result.stderr.count("\n") == 1


def test_every_column_of_a_site_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sites.md").read_text()
    from clerk.db.sites import EDITABLE

    assert [column for column in EDITABLE if column not in page] == []


def test_new_asks_for_what_is_not_given_and_starts_the_first_run(clerk: Clerk, database: str) -> None:
    answers = "springfield\nSpringfield\nIL\nUS\n\n\n" + '{"client": "springfield"}' + "\ny\n"
    result = clerk("new", "--kind", "city", "--scraper", "legistar", "--start-year", "2019", input=answers)
    assert result.exit_code == 0, result.output
    assert result.stdout == "springfield: added, its first run is started\n"
    assert "Name of the municipality [springfield]: " in result.stderr
    assert "Kind" not in result.stderr
    row = json.loads(clerk("site", "show", "springfield", "--json").output)
    assert (row["name"], row["state"], row["country"], row["kind"]) == ("Springfield", "IL", "US", "city")
    assert (row["scraper"], row["start_year"], row["lat"]) == ("legistar", 2019, None)
    assert row["extra"] == {"client": "springfield"}
    assert row["current_stage"] == "fetch"
    with psycopg.connect(database) as connection:
        reasons = connection.execute("select reason from pipeline_runs where subdomain = 'springfield'").fetchall()
    assert reasons == [("new site",)]


def test_new_without_questions(clerk: Clerk) -> None:
    options = ["new", "springfield", *ADD[3:], *EXTRA, "--yes"]
    planned = json.loads(clerk(*options, "--dry-run", "--json").stdout)
    assert (planned["added"]["name"], planned["run_id"], planned["dry_run"]) == ("Springfield", None, True)
    assert json.loads(clerk("site", "list", "--json").output) == []
    added = json.loads(clerk(*options, "--json").stdout)
    assert added["run_id"] > 0
    assert "already" in error_of(clerk(*options))
    assert clerk("new", "--yes").exit_code == 2
    assert "not a valid subdomain" in error_of(clerk("new", "No Way", "--yes"))


def test_new_has_the_options_of_the_source(clerk: Clerk, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "scans")
    assert "no folder" in error_of(clerk("new", "scans", "--path", str(tmp_path / "scnas"), "--yes"))
    added = json.loads(clerk("new", "scans", "--path", str(folder), "--yes", "--json").stdout)["added"]
    assert (added["scraper"], added["extra"]) == ("directory", {"path": str(folder)})
    legistar = ("--scraper", "legistar", "--client", "springfield", "--since", "2020-01-01")
    answers = "Springfield\n" + "\n" * 6 + "y\n"
    result = clerk("new", "springfield", *legistar, "--json", input=answers)
    added = json.loads(result.stdout)["added"]
    assert added["extra"] == {"client": "springfield", "since": "2020-01-01"}
    assert "JSON for the fetcher" not in result.stderr, "the settings are given"


def test_new_adds_nothing_without_confirmation(clerk: Clerk) -> None:
    assert clerk("new", "springfield", input="\n" * 9 + "n\n").exit_code == 1
    assert json.loads(clerk("site", "list", "--json").output) == []


def test_new_without_a_terminal_names_yes(clerk: Clerk) -> None:
    """As in a cron job: the answers end before the questions."""
    for arguments, answers in ((["new"], ""), (["new", "springfield"], ""), (["new", "springfield"], "\n" * 9)):
        result = clerk(*arguments, input=answers)
        assert result.exit_code == 2, arguments
        assert "--yes" in result.stderr
    assert json.loads(clerk("site", "list", "--json").output) == []


def test_purge(clerk: Clerk, database: str) -> None:
    clerk("new", "springfield", *ADD[3:], *EXTRA, "--yes")
    jobs = "select count(*) from procrastinate_jobs where args ->> 'subdomain' = 'springfield'"
    with psycopg.connect(database, autocommit=True) as connection:
        plan = json.loads(clerk("purge", "springfield", "--dry-run", "--json").stdout)
        run_id = plan["run_id"]
        assert plan == {"site": "springfield", "run_id": run_id, "deleted_jobs": 1, "running_jobs": 0, "dry_run": True}
        refused = clerk("purge", "springfield", input="n\n")
        assert refused.exit_code == 1
        assert f"End run {run_id} of springfield and delete 1 job? [y/N]: " in refused.stderr
        assert connection.execute(jobs).fetchone() == (1,)

        assert (
            clerk("purge", "-s", "springfield", "--yes").stdout == f"springfield: run {run_id} ended, 1 job deleted\n"
        )

        assert connection.execute(jobs).fetchone() == (0,)
    assert json.loads(clerk("site", "show", "springfield", "--json").output)["outcome"] == "cancelled"
    assert clerk("purge", "springfield", "--yes").stdout == "springfield: 0 jobs deleted\n"
    assert "no site" in error_of(clerk("purge", "nowhere", "--yes"))
    assert clerk("purge").exit_code == 2


def add_skipped(database: str, *names: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("insert into sites (subdomain) values ('town')")
        for name in names:
            connection.execute(
                "insert into skipped_entries (subdomain, source_key, name, reason_code, reason)"
                " values ('town', 'file ' || %(name)s::text, %(name)s, 'NoDate', %(name)s || ' has no date')",
                {"name": name},
            )


def test_skipped_entries_are_listed_dated_and_ignored(clerk: Clerk, database: str, tmp_path: Path) -> None:
    add_skipped(database, "a/one.pdf", "b/one.pdf", "b/two.pdf")
    listed = clerk("site", "skipped", "town").output
    assert "town: 3 entries of the source skipped." in listed
    assert "a/one.pdf has no date" in listed
    assert "clerk site date town FILE YYYY-MM-DD" in listed

    assert "is not unique (a/one.pdf, b/one.pdf)" in error_of(clerk("site", "date", "town", "one.pdf", "2024-03-05"))
    unknown = error_of(clerk("site", "date", "town", "xyz", "2024-03-05"))
    assert "has no entry xyz: `clerk site skipped town` lists the skipped entries" in unknown
    assert "did you mean " in error_of(clerk("site", "date", "town", "ONE.pdf", "2024-03-05"))
    assert "'soon' is not a date" in error_of(clerk("site", "date", "town", "two.pdf", "soon"))
    assert "is not plausible" in error_of(clerk("site", "date", "town", "two.pdf", "0024-03-05"))
    dates = tmp_path / "dates.csv"
    dates.write_text("file,date,kind\ntwo.pdf,2024-03-05,\na/one.pdf,2024-03-05,video\n")
    assert "1 of 2 lines are invalid" in error_of(clerk("site", "date", "town", "--csv", str(dates)))
    assert "(dry run" in clerk("site", "date", "town", "two.pdf", "2024-03-05", "--dry-run").output
    assert len(json.loads(clerk("site", "skipped", "town", "--json").output)["skipped"]) == 3, "nothing was changed"

    dates.write_text("file,date,kind\ntwo.pdf,2024-03-05,\na/one.pdf,2024-03-06,report\n")
    assert clerk("site", "date", "town", "--csv", str(dates)).exit_code == 0
    assert clerk("site", "ignore", "town", "b/one.pdf").exit_code == 0
    assert clerk("site", "skipped", "town").output == "town: no entry of the source is skipped.\n"
    rows = json.loads(clerk("site", "skipped", "town", "--all", "--json").output)["skipped"]
    assert [(row["name"], row["state"], row["date"], row["kind"]) for row in rows] == [
        ("a/one.pdf", "dated", "2024-03-06", "report"),
        ("b/one.pdf", "ignored", None, None),
        ("b/two.pdf", "dated", "2024-03-05", None),
    ]
    assert clerk("site", "ignore", "town", "b/one.pdf", "--undo").exit_code == 0
    assert "b/one.pdf has no date" in clerk("site", "skipped", "town").output

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("update skipped_entries set reason_code = 'NotADocument'")
    listed = clerk("site", "skipped", "town").output
    assert "clerk site ignore town FILE" in listed
    assert "clerk site date" not in listed, "a date does not make it a document"


def test_the_csv_of_skipped_entries_is_filled_in_and_read_again(clerk: Clerk, database: str, tmp_path: Path) -> None:
    add_skipped(database, "-1 scan.pdf", "Müller, 6 août.pdf")
    printed = clerk("site", "skipped", "town", "--csv").stdout
    assert printed.splitlines() == [
        "file,date,meeting,kind,reason",
        "'-1 scan.pdf,,,,-1 scan.pdf has no date".replace(",-1", ",'-1"),
        '"Müller, 6 août.pdf",,,,"Müller, 6 août.pdf has no date"',
    ]
    dates = tmp_path / "dates.csv"
    dates.write_text(printed)
    unchanged = clerk("site", "date", "town", "--csv", str(dates))
    assert (unchanged.exit_code, unchanged.stdout) == (0, "")
    assert "nothing was changed" in unchanged.stderr
    dates.write_text(printed.replace("'-1 scan.pdf,,", "'-1 scan.pdf,1998-07-13,"))
    assert clerk("site", "date", "town", "--csv", str(dates)).stdout == "-1 scan.pdf: 1998-07-13\n"
    assert "-1 scan.pdf" not in clerk("site", "skipped", "town", "--csv").stdout
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("update skipped_entries set reason_code = 'UnreadableType'")
    assert clerk("site", "skipped", "town", "--csv").stdout == "file,date,meeting,kind,reason\n"


@pytest.mark.parametrize("arguments", [[], ["a.pdf"], ["a.pdf", "2024-03-05", "--csv", "/dev/null"]])
def test_date_needs_a_file_with_a_value_or_a_csv(clerk: Clerk, database: str, arguments: list[str]) -> None:
    add_skipped(database, "a.pdf")
    assert clerk("site", "date", "town", *arguments).exit_code == 2


def make_folder(folder: Path) -> Path:
    (folder / "City Council").mkdir(parents=True)
    for name in ("City Council/2024-03-05.pdf", "City Council/agenda 2024-04-02.pdf", "scan.pdf", "a.csv"):
        (folder / name).write_bytes(b"%PDF-1.4")
    (folder / "elsewhere.pdf").symlink_to("/etc/hostname")
    return folder


def test_the_message_of_a_new_site_depends_on_whether_workers_run(clerk: Clerk, database: str, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "scans")
    above = str(folder / ".." / "scans")
    assert "No worker runs" in clerk("site", "add", "one", "--path", above).stderr
    with psycopg.connect(database, autocommit=True) as connection:
        stored = connection.execute("select extra from sites where subdomain = 'one'").fetchone()
        assert stored is not None
        assert json.loads(stored[0]) == {"path": str(folder.resolve())}
    with connect_worker(database, "0123456789ab clerk 77 machine-a"):
        added = clerk("site", "add", "two", "--path", str(folder)).stderr
    assert "Workers start its first run within a minute." in added
    assert "clerk up" not in added


def test_a_folder_is_checked_and_listed(clerk: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path / "scans")
    monkeypatch.chdir(tmp_path)
    add = ("site", "add", "town", "--path")
    assert str(error_of(clerk(*add, "scnas"))) == f"no folder {tmp_path / 'scnas'}; did you mean {folder}?"
    assert "--no-check" in error_of(clerk(*add, "/nowhere/at/all"))
    assert "is a file, not a folder" in error_of(clerk(*add, "scans/scan.pdf"))
    (tmp_path / "empty").mkdir()
    assert "has no documents: it is empty" in error_of(clerk(*add, "empty"))
    (tmp_path / "empty" / "a.csv").touch()
    assert "has no documents, only 1 .csv: clerk reads .pdf, .html and .docx" in error_of(clerk(*add, "empty"))

    (folder / "notes 2024-03-06.txt").touch()
    (folder / "agenda 2024-03-12.pdf").write_bytes(b"%PDF-1.4")
    planned = clerk(*add, "scans", "--dry-run").stdout
    assert "1 file that clerk does not read (a text file): notes 2024-03-06.txt\n" in planned
    for part in ("4: 2 of unknown kind and 2 agendas", "City Council 2", "2024-03-05 to 2024-04-02", "1 .csv"):
        assert part in planned
    assert "skipped    elsewhere.pdf is not a regular file" in planned
    assert "1 document without a date" in planned
    assert "notes 1" not in planned, "nor is it a body"
    assert json.loads(clerk("site", "list", "--json").output) == []

    added = json.loads(clerk(*add, "scans", "--undated", "modified", "--day-first", "--json").stdout)
    assert added["added"]["scraper"] == "directory"
    assert added["added"]["extra"] == {"path": str(folder), "undated": "modified", "day_first": True}
    assert (added["listing"]["documents"], added["listing"]["skipped"]) == (4, 1)
    assert clerk("site", "add", "remote", "--path", "/nowhere", "--no-check").exit_code == 0


def test_options_for_the_settings_of_the_source(clerk: Clerk) -> None:
    added = clerk(*ADD, "--client", "springfield", "--since", "2020-01-01", "--json")
    assert json.loads(added.stdout)["added"]["extra"] == {"client": "springfield", "since": "2020-01-01"}
    edited = clerk("site", "edit", "springfield", "--since", "", "--languages", "eng+spa", "--dry-run", "--json")
    changed = json.loads(edited.stdout)["changed"]
    assert json.loads(changed["extra"]["after"]) == {"client": "springfield", "languages": "eng+spa"}
    assert list(changed) == ["extra"]
    granicus = ("site", "add", "g", "--scraper", "granicus", "--client", "g", "--views", "2", "--views", "3")
    extra = json.loads(clerk(*granicus, "--kinds", "agenda,packet", "--json").stdout)["added"]["extra"]
    assert extra == {"client": "g", "views": ["2", "3"], "kinds": ["agenda", "packet"]}
    manifest = json.loads(
        clerk("site", "add", "m", "--scraper", "manifest", "--url", "https://x.example/list.csv", "--json").stdout
    )
    assert manifest["added"]["extra"] == {"url": "https://x.example/list.csv"}
    links = json.loads(clerk("site", "add", "l", "--pages", "https://x.example/minutes", "--json").stdout)["added"]
    assert links["scraper"] == "links"
    assert "name the scraper with --scraper: civicclerk" in clerk("site", "add", "x", "--client", "x").stderr
    assert "No such option '--views'" in clerk("site", "add", "x", "--scraper", "legistar", "--views", "2").stderr
    wrong = clerk("site", "add", "x", "--scraper", "legistar", "--extra", '{"cleint": "x"}')
    assert error_of(wrong) == "x: no key cleint of the scraper legistar; did you mean client?"
    assert "did you mean legistar?" in error_of(clerk("site", "add", "x", "--scraper", "legistr", "--client", "x"))
    assert "not an address" in error_of(clerk("site", "add", "x", "--url", "no address"))
    assert "--path /srv" in error_of(clerk("site", "add", "x", "--url", "/srv"))


OWN_FETCHER = """
from clerk import Fetcher, hookimpl

class Board(Fetcher):
    extra_help = {"board_id": "number of the board", "drafts": "true to fetch drafts"}
    extra_types = {"drafts": bool}

@hookimpl
def fetcher_class(label):
    return Board if label == "my-board" else None

@hookimpl
def provided_labels(hook):
    return ["my-board"] if hook == "fetcher_class" else None
"""


def test_settings_of_a_plugin_are_options(clerk: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "own.py").write_text(OWN_FETCHER)
    monkeypatch.setenv("CLERK_PLUGINS_DIR", str(tmp_path / "plugins"))
    add = ("site", "add", "x", "--scraper", "my-board", "--board-id", "7", "--drafts", "--json")
    assert json.loads(clerk(*add).stdout)["added"]["extra"] == {"board_id": "7", "drafts": True}
    assert "Number of the board." in clerk("site", "add", "--scraper", "my-board", "--help").stdout
    assert "did you mean my-board?" in error_of(clerk("site", "add", "y", "--scraper", "my-bord"))


def test_what_is_missing_is_named_without_a_terminal(clerk: Clerk) -> None:
    assert "give SUBDOMAIN and --path FOLDER" in error_of(clerk("site", "add"))
    assert "town: the place of its documents is missing" in error_of(clerk("site", "add", "town", "--name", "Town"))
    assert "the name of the site is missing" in error_of(clerk("site", "add", "--url", "https://x.example"))


def test_what_is_missing_is_asked_on_a_terminal(clerk: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path / "scans")
    monkeypatch.setattr("clerk.cli.site_prompt._is_terminal", lambda: True)
    answers = f"St. Paul\n\nnot a folder\n{folder}\n\n"
    result = clerk("site", "add", input=answers)
    assert result.exit_code == 0, result.output
    assert "Short name, for folders and addresses [st-paul]: " in result.stderr
    assert "no folder not a folder" in result.stderr
    assert result.stderr.index("Where are the documents?") < result.stderr.index("Add st-paul? [Y/n]")
    row = json.loads(clerk("site", "show", "st-paul", "--json").output)
    assert (row["name"], row["scraper"], row["extra"]) == ("St. Paul", "directory", {"path": str(folder)})
    assert clerk("site", "add", "other", input=f"{folder}\nn\n").exit_code == 1
    assert len(json.loads(clerk("site", "list", "--json").output)) == 1


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_an_export_can_be_imported(clerk: Clerk, tmp_path: Path, form: str) -> None:
    clerk(*ADD, "--client", "springfield", "--since", "2020-01-01", "--cadence", "weekly", "--weight", "3")
    clerk("site", "add", "b", "--scraper", "directory", "--path", "/nowhere", "--no-check", "--name", 'B, "q" é')
    clerk("site", "edit", "b", "--cadence", "never", "--lat", "41.5", "--start-year", "2001")
    before = clerk("site", "list", "--json").output
    file = tmp_path / "sites"
    file.write_text(clerk("site", "export", form).stdout)
    assert clerk("site", "export", form, "--output", str(tmp_path / "copy")).exit_code == 0
    assert (tmp_path / "copy").read_text() == file.read_text()
    for name in ("springfield", "b"):
        clerk("site", "remove", name, "--yes")
    assert "clerk: warning: b: no folder /nowhere.\n" in clerk("site", "import", str(file), "--dry-run").stderr
    imported = json.loads(clerk("site", "import", str(file), "--json").output)
    assert imported["added"] == ["b", "springfield"]
    assert imported["warnings"] == ["b: no folder /nowhere"]
    assert clerk("site", "list", "--json").output == before


def test_sites_are_selected_by_outcome_stage_and_scraper(clerk: Clerk, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "insert into sites (subdomain, scraper, current_stage, outcome) values"
            " ('a', 'legistar', 'completed', 'failed'), ('b', 'own', 'completed', 'succeeded'), ('c', null, null, null)"
        )

    def selected(*options: str) -> list[str]:
        return [row["subdomain"] for row in json.loads(clerk("site", "list", "--json", *options).output)]

    assert selected("--outcome", "failed") == ["a"]
    assert selected("--stage", "completed") == ["a", "b"]
    assert selected("--scraper", "own") == ["b"]
    assert selected("--scraper", "granicus") == []
    assert "No site matches." in clerk("site", "list", "--outcome", "cancelled").output
    assert "did you mean failed?" in error_of(clerk("site", "list", "--outcome", "faild"))
    assert "did you mean legistar?" in error_of(clerk("site", "export", "--scraper", "legistr"))


def test_the_cadence_decides_when_a_site_is_due(clerk: Clerk, database: str) -> None:
    for name, cadence in (("d", "daily"), ("h", "1"), ("n", "never"), ("w", "weekly")):
        clerk("site", "add", name, "--pages", "https://x.example", "--cadence", cadence)
    with psycopg.connect(database, autocommit=True) as connection:

        def due(ago: str) -> list[str]:
            connection.execute("update sites set updated_at = clerk_now() - %s::interval", [ago])
            return [row[0] for row in connection.execute("select subdomain from due_sites order by 1").fetchall()]

        assert due("2 hours") == ["h"]
        assert due("24 hours") == ["d", "h"]
        assert due("8 days") == ["d", "h", "w"]
        assert "not started automatically (cadence never)" in clerk("why", "n").output
        due("1 minute")
        assert "(weekly)" in clerk("why", "w").output
        connection.execute("update sites set updated_at = null")
        assert connection.execute("select count(*) from due_sites where subdomain = 'n'").fetchone() == (0,)
    rows = {row["subdomain"]: row["cadence"] for row in json.loads(clerk("site", "list", "--json").output)}
    assert rows == {"d": "daily", "h": "hourly", "n": "never", "w": "weekly"}
    assert "cadence was weekly, is daily" in clerk("site", "edit", "w", "--cadence", "").output
