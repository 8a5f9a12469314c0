"""`clerk alert`."""

from __future__ import annotations

import json

import psycopg
import pytest
from click.testing import CliRunner, Result

from clerk.cli import cli
from clerk.errors import ClerkError
from tests.publish.helpers import Town
from tests.saved_searches.helpers import BIKES, fields
from tests.saved_searches.receivers import HttpReceiver, MailServer


def clerk(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["alert", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit | ClerkError):
        raise result.exception
    return result


def refusal(*arguments: str) -> str:
    result = clerk(*arguments)
    assert result.exit_code != 0
    return str(result.exception) if isinstance(result.exception, ClerkError) else result.output


@pytest.mark.usefixtures("town")
def test_add_and_list() -> None:
    result = clerk("add", "trees", "tree", "cutting", "--site", "springfield", "--mail", "desk@example.org", "--feed")
    assert result.exit_code == 0, result.output
    assert "trees: added (mail to d***@example.org, immediate; feed)" in result.stdout
    assert "CLERK_SMTP_HOST is not set here" in result.stderr
    assert "A worker writes the feed within a minute: /-/feeds/alerts/trees.atom of `clerk serve`" in result.stderr
    (row,) = json.loads(clerk("list", "--json").stdout)
    assert (row["name"], row["query"], row["sites"]) == ("trees", "tree cutting", ["springfield"])
    assert "tree cutting" in clerk("list").stdout


@pytest.mark.usefixtures("receiver")
def test_the_secret_of_a_webhook_is_shown_once(town: Town, receiver: HttpReceiver) -> None:
    result = clerk("add", "bikes", "bike", "--webhook", receiver.url, "--json")
    (secret,) = fields(town, "select secret from saved_search_destinations")[0]
    assert secret.startswith("whsec_")
    assert f"shown only now: {secret}" in result.stderr
    shown = result.stdout + clerk("list", "--json").stdout + clerk("list").stdout
    shown += clerk("test", "bikes", "--json").stdout + clerk("test", "bikes").stdout
    shown += str(fields(town, "select detail from operator_actions")) + str(
        fields(town, "select * from saved_search_overview")
    )
    assert secret not in shown
    # The path of a webhook's URL is often a secret too.
    assert "path-secret" not in shown


@pytest.mark.usefixtures("town")
def test_dry_runs_change_nothing(connection: psycopg.Connection) -> None:
    result = clerk("add", "bikes", "bike", "--feed", "--dry-run")
    assert "planned, not done (dry run): bikes: added" in result.stdout
    assert clerk("list").stdout == "No alerts. Add one with `clerk alert add`.\n"
    clerk("add", "bikes", "bike", "--feed")
    for command in ("pause", "remove"):
        assert "dry run" in clerk(command, "bikes", "--dry-run").stdout
    clerk("pause", "bikes")
    assert "dry run" in clerk("resume", "bikes", "--dry-run").stdout
    assert connection.execute("select paused_at is not null from saved_searches").fetchall() == [(True,)]


@pytest.mark.usefixtures("town")
def test_pause_resume_and_remove(connection: psycopg.Connection) -> None:
    clerk("add", "bikes", "bike", "--feed")
    assert clerk("pause", "bikes").stdout == "bikes: paused\n"
    assert clerk("pause", "bikes").stdout == "bikes: nothing to do, it is already paused.\n"
    assert json.loads(clerk("resume", "bikes", "--json").stdout) == {"name": "bikes", "resumed": True, "dry_run": False}
    assert clerk("resume", "bikes").stdout == "bikes: nothing to do, it is not paused.\n"
    assert clerk("remove", "bikes").stdout == "bikes: removed\n"
    assert "no alert bikes" in refusal("remove", "bikes")
    actions = [row[0] for row in connection.execute("select action from operator_actions order by id")]
    assert actions == ["add alert", "pause alert", "resume alert", "remove alert"]


@pytest.mark.usefixtures("town")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["Bike Lanes", "bike", "--feed"], "such as bike-lanes"),
        (["../x", "bike", "--feed"], "is not a name of an alert"),
        (["bikes", "bike"], "no destination"),
        (["bikes", "bike", "--feed", "--frequency", "daily"], "for mails only"),
        (["bikes", "title:bike", "--feed"], "title"),
        (["bikes", "bike\nlane", "--feed"], "control characters"),
        (["bikes", "bike", "--mail", "a@b.example\nBcc: c@d.example"], "mail address"),
        (["bikes", "bike", "--mail", "a@b.example, c@d.example"], "mail address"),
        (["bikes", "bike", "--mail", "Desk <a@b.example>"], "mail address"),
        (["bikes", "bike", "--mail", "desk"], "mail address"),
        (["bikes", "bike", "--mail", "désk@example.org"], "mail address"),
        (["bikes", "bike", "--webhook", "ftp://example.org/"], "not an http or https URL"),
        (["bikes", "bike", "--webhook", "https://user:secret@example.org/"], "user name or password"),
        (["bikes", "bike", "--webhook", "http://127.0.0.1:8000/"], "not a public address"),
        (["bikes", "bike", "--webhook", "http://169.254.169.254/latest"], "not a public address"),
        (["bikes", "bike", "--webhook", "http://[::1]/"], "not a public address"),
        (["bikes", "bike", "--webhook", "http://10.0.0.1/"], "not a public address"),
        (["bikes", "bike", "--webhook", "http://93.184.216.34:25/"], "port 25"),
        (["bikes", "bike", "--webhook", "http://example.org/\r\nX: y"], "invalid characters"),
        (["bikes", "bike", "--site", "nowhere", "--feed"], "nowhere"),
    ],
)
def test_what_is_refused(connection: psycopg.Connection, arguments: list[str], problem: str) -> None:
    assert problem in refusal("add", *arguments)
    assert connection.execute("select count(*) from saved_searches").fetchall() == [(0,)]


@pytest.mark.usefixtures("town")
def test_a_name_is_used_once() -> None:
    clerk("add", "bikes", "bike", "--feed")
    assert "already an alert bikes" in refusal("add", "bikes", "lanes", "--feed")
    assert "did you mean bikes?" in refusal("pause", "bike")


def test_test_sends_a_message_now(town: Town, mail_server: MailServer, receiver: HttpReceiver) -> None:
    town.add_document(BIKES)
    town.run()
    clerk("add", "bikes", "bike", "--mail", "desk@example.org", "--webhook", receiver.url, "--feed")
    result = clerk("test", "bikes", "--dry-run")
    assert "springfield: City Council, 2024-03-05, page 1" in result.stdout
    assert (mail_server.mails, receiver.requests) == ([], [])
    result = clerk("test", "bikes")
    assert result.exit_code == 0, result.output
    assert mail_server.mails[0]["Subject"] == "[test] clerk alert bikes: 1 page of springfield"
    assert receiver.requests[0].json["type"] == "alert.test"
    assert town.one("select count(*) from saved_search_deliveries") == (0,)


def test_test_reports_what_fails(town: Town, mail_server: MailServer) -> None:
    clerk("add", "bikes", "bike", "--mail", "desk@example.org")
    mail_server.answers = ["550 no such user"]
    result = clerk("test", "bikes")
    assert result.exit_code == 1
    assert "MailRefused" in result.stdout
    assert "550 no such user" in result.stdout


def test_a_webhook_to_a_private_address_is_refused_at_delivery(
    town: Town, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may resolve to another address than when the alert was added."""
    clerk("add", "bikes", "bike", "--webhook", receiver.url.replace("127.0.0.1", "localhost"))
    monkeypatch.delenv("CLERK_ALLOW_LOOPBACK")
    town.add_document(BIKES)
    assert town.run() == "succeeded"
    (row,) = fields(town, "select status, error_code, error_message from saved_search_deliveries")
    assert row[:2] == ("failed_terminal", "WebhookForbidden")
    assert "path-secret" not in row[2]
    assert receiver.requests == []


def test_the_log_of_a_worker_has_no_secrets(
    town: Town, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    clerk("add", "bikes", "bike", "--webhook", receiver.url)
    ((secret,),) = fields(town, "select secret from saved_search_destinations")
    receiver.statuses = [500]
    town.add_document(BIKES)
    town.run()
    assert "the receiver returned status 500" in caplog.text
    assert secret not in caplog.text
    own = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith(("clerk", "procrastinate"))
    )
    assert "path-secret" not in own
