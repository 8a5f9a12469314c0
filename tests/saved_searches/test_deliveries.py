"""Deliveries: retries, lost workers and replies, digests, pauses, and what the receivers are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from clerk import config
from clerk.monitoring.failures import FailureFilter, read_failures, retry_failures
from clerk.pipeline import engine
from clerk.reconcile.apply import rescue_expired
from clerk.saved_searches import deliveries, jobs, repository
from tests.helpers import until
from tests.publish.helpers import Town
from tests.saved_searches.helpers import BIKES, JUNE, MAY, deliver, fields, save_search
from tests.saved_searches.receivers import HttpReceiver, MailServer

STATUS = "select status, attempt_count, error_code from saved_search_deliveries"


def test_a_temporary_refusal_is_retried(town: Town, mail_server: MailServer, receiver: HttpReceiver) -> None:
    save_search(town, mails=("desk@example.org",), webhooks=(receiver.url,))
    mail_server.answers = ["451 try again later"]
    receiver.statuses = [503, 302]
    town.add_document(BIKES)
    assert town.run() == "succeeded"
    assert sorted(fields(town, STATUS)) == [
        ("failed_retryable", 1, "MailFailed"),
        ("failed_retryable", 1, "WebhookFailed"),
    ]
    delays = (
        "select extract(epoch from j.scheduled_at - d.last_attempt_at) from saved_search_deliveries d"
        " join procrastinate_jobs j on j.id = d.job_id"
    )
    assert all(30 < seconds < 90 for (seconds,) in fields(town, delays))
    deliver(town)
    deliver(town)
    assert sorted(fields(town, STATUS)) == [("delivered", 2, None), ("delivered", 3, None)]
    assert len(mail_server.mails) == 1
    # The same id at every attempt, but a new timestamp and signature.
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    assert len(receiver.requests) == 3


def test_a_permanent_refusal_is_shown_and_can_be_retried(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    mail_server.answers = ["550 no such user"]
    town.add_document(BIKES)
    assert town.run() == "succeeded"
    assert fields(town, STATUS) == [("failed_terminal", 1, "MailRefused")]
    (group,) = read_failures(town.connection, FailureFilter(stage="delivery"))
    assert (group.error_code, group.units, group.permanent) == ("MailRefused", 1, 1)
    assert group.examples[0].document == "alert bikes, mail to d***@example.org"
    assert "550 no such user" in group.examples[0].message
    (dry,) = retry_failures(town.connection, FailureFilter(stage="delivery"), dry_run=True)
    assert (dry.site, dry.units) == ("", {"delivery": 1})
    assert fields(town, STATUS) == [("failed_terminal", 1, "MailRefused")]
    list(retry_failures(town.connection, FailureFilter(error="MailRefused"), dry_run=False))
    deliver(town)
    assert fields(town, STATUS) == [("delivered", 1, None)]
    assert read_failures(town.connection, FailureFilter()) == []


def test_the_last_attempt(town: Town, receiver: HttpReceiver) -> None:
    save_search(town, webhooks=(receiver.url,))
    receiver.statuses = [500] * 10
    town.add_document(BIKES)
    town.run()
    for _ in range(9):
        deliver(town)
    assert fields(town, STATUS) == [("failed_terminal", 10, "WebhookFailed")]
    deliver(town)
    assert len(receiver.requests) == 10


def test_without_smtp_settings(town: Town) -> None:
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    assert town.run() == "succeeded"
    assert fields(town, STATUS) == [("failed_terminal", 1, "MailNotConfigured")]


def test_a_password_is_not_sent_unencrypted(
    town: Town, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLERK_SMTP_USER", "clerk")
    monkeypatch.setenv("CLERK_SMTP_PASSWORD", "secret")
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.run()
    assert fields(town, STATUS) == [("failed_terminal", 1, "MailNotConfigured")]
    assert mail_server.mails == []


def test_an_unreachable_server(town: Town, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    save_search(town, mails=("desk@example.org",))
    monkeypatch.setenv("CLERK_SMTP_PORT", "1")
    town.add_document(BIKES)
    town.run()
    assert fields(town, STATUS) == [("failed_retryable", 1, "MailFailed")]


def test_a_lost_reply_is_repeated_with_the_same_id(town: Town, receiver: HttpReceiver) -> None:
    save_search(town, webhooks=(receiver.url,))
    receiver.statuses = [0]
    town.add_document(BIKES)
    town.run()
    deliver(town)
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.json == second.json
    assert fields(town, STATUS) == [("delivered", 2, None)]


def test_a_worker_that_is_killed_while_it_delivers(town: Town, mail_server: MailServer) -> None:
    """Killed after the server accepted the mail, before clerk recorded it: repeated under the same Message-ID."""
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.start()
    # Only the run and its matching: the delivery waits.
    town.connection.execute(
        "insert into paused_queues (queue_name, paused_at, paused_by) values ('delivery', now(), 'me')"
    )
    town.work()
    town.connection.execute("delete from paused_queues")
    town.connection.execute(
        "update procrastinate_jobs set scheduled_at = null where status = 'todo' and task_name = %s", [jobs.MATCH_TASK]
    )
    town.connection.execute(
        "create function stall() returns trigger language plpgsql as $$ begin perform pg_sleep(600); return new; end $$"
    )
    town.connection.execute(
        "create trigger stall before update of delivered_at on saved_search_deliveries"
        " for each row execute function stall()"
    )
    command = [sys.executable, "-m", "procrastinate", "--app=clerk.app.app", "worker", "--queues=delivery"]
    with subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        until(lambda: mail_server.mails)
        os.kill(worker.pid, signal.SIGKILL)
    sleeping = "from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
    town.connection.execute(f"select pg_terminate_backend(pid) {sleeping}")
    until(lambda: town.one(f"select count(*) {sleeping}") == (0,))
    town.connection.execute("drop trigger stall on saved_search_deliveries")
    assert fields(town, "select status from saved_search_deliveries") == [("pending",)]
    town.connection.execute("update job_claims set lease_until = now() - interval '1 minute' where settled_as is null")
    assert rescue_expired(town.connection) == 1
    assert fields(town, STATUS) == [("failed_retryable", 1, "WorkerLost")]
    deliver(town)
    assert fields(town, STATUS) == [("delivered", 2, None)]
    first, second = mail_server.mails
    assert first["Message-ID"] == second["Message-ID"]
    assert first.get_content() == second.get_content()


def test_deleted_jobs_are_deferred_again(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.start()
    town.work_on("fetch", "compilation", "extraction", "deploy", "coordinator")
    assert town.one("select count(*) from publication_matchings where status = 'pending'") == (1,)
    assert jobs.redefer_lost(town.connection) == 0
    town.connection.execute("delete from procrastinate_jobs where queue_name = 'delivery'")
    assert jobs.redefer_lost(town.connection) == 1
    assert jobs.redefer_lost(town.connection) == 0
    deliver(town)
    assert len(mail_server.mails) == 1
    assert fields(town, "select status from publication_matchings") == [("matched",)]


def test_a_cancelled_job(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.start()
    town.work_on("fetch", "compilation", "extraction", "deploy", "coordinator")
    town.connection.execute("update procrastinate_jobs set status = 'cancelled' where queue_name = 'delivery'")
    assert fields(town, "select step, status, error_code from failing_deliveries") == [
        ("match", "failed_terminal", "JobCancelled")
    ]
    assert jobs.retry_failed(town.connection) == 1
    deliver(town)
    assert len(mail_server.mails) == 1


def test_a_webhook_gets_at_most_100_pages_per_request(town: Town, receiver: HttpReceiver) -> None:
    save_search(town, webhooks=(receiver.url,))
    town.add_document(*(f"{BIKES} Item {number}." for number in range(230)))
    town.run()
    assert sorted(len(request.json["pages"]) for request in receiver.requests) == [30, 100, 100]
    assert len({page["page_id"] for request in receiver.requests for page in request.json["pages"]}) == 230


def test_a_mail_lists_50_pages_and_counts_the_others(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    town.add_document(*(f"{BIKES} Item {number}." for number in range(53)))
    town.run()
    (text,) = mail_server.texts
    assert text.startswith("53 new or changed pages matched the search")
    assert text.count("\n  page ") == 50
    assert "… and 3 more pages." in text


def test_digests(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("daily@example.org",), frequency="daily")
    save_search(town, "weekly", mails=("weekly@example.org",), frequency="weekly")
    for day in (MAY, JUNE):
        town.add_document(f"{BIKES} {day}", day=day)
        town.run()
    assert deliveries.create_due_digests(town.connection, config.load()) == 0
    town.connection.execute(
        "update saved_search_destinations set next_digest_at = now() - interval '1 minute' where frequency = 'daily'"
    )
    assert deliveries.create_due_digests(town.connection, config.load()) == 1
    assert deliveries.create_due_digests(town.connection, config.load()) == 0
    deliver(town)
    assert mail_server.recipients == ["daily@example.org"]
    assert "2 new or changed pages" in mail_server.texts[0]
    # Without new matches there is no mail, and the next digest is scheduled.
    town.connection.execute("update saved_search_destinations set next_digest_at = now() - interval '1 minute'")
    assert deliveries.create_due_digests(town.connection, config.load()) == 1
    deliver(town)
    assert mail_server.recipients == ["daily@example.org", "weekly@example.org"]
    assert town.one("select min(next_digest_at) > now() from saved_search_destinations") == (True,)


@pytest.mark.parametrize(
    ("frequency", "now", "expected"),
    [
        ("daily", "2026-11-18T05:59:00+00:00", "2026-11-18T06:00:00+00:00"),
        ("daily", "2026-11-18T06:00:00+00:00", "2026-11-19T06:00:00+00:00"),
        ("daily", "2026-12-31T23:00:00+00:00", "2027-01-01T06:00:00+00:00"),
        ("weekly", "2026-11-18T05:00:00+00:00", "2026-11-23T06:00:00+00:00"),
        ("weekly", "2026-11-16T05:00:00+00:00", "2026-11-16T06:00:00+00:00"),
        ("weekly", "2026-11-16T07:00:00+02:00", "2026-11-16T06:00:00+00:00"),
    ],
)
def test_when_the_next_digest_is_due(frequency: str, now: str, expected: str) -> None:
    due = repository.next_digest(frequency, datetime.fromisoformat(now), 6)
    assert due == datetime.fromisoformat(expected).astimezone(UTC)


def test_a_paused_alert_delivers_when_it_is_resumed(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    assert repository.pause(town.connection, "bikes", "me")
    assert not repository.pause(town.connection, "bikes", "me")
    town.add_document(BIKES)
    town.run()
    assert town.one("select count(*) from saved_search_matches") == (1,)
    assert mail_server.mails == []
    with town.connection.transaction():
        assert deliveries.resume(town.connection, "bikes") == 1
    with town.connection.transaction():
        assert deliveries.resume(town.connection, "bikes") is None
    deliver(town)
    assert len(mail_server.mails) == 1


def test_a_removed_alert_delivers_nothing(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.start()
    town.work_on("fetch", "compilation", "extraction", "deploy", "coordinator")
    repository.remove(town.connection, "bikes")
    deliver(town)
    assert mail_server.mails == []
    assert town.one("select count(*) from saved_search_matches") == (0,)


def test_retention(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.run()
    assert engine.delete_old_matches(town.connection) == 0
    town.connection.execute("update saved_search_matches set matched_at = now() - interval '2 years'")
    town.connection.execute("update saved_search_deliveries set delivered_at = now() - interval '91 days'")
    assert engine.delete_old_matches(town.connection) == 1
    assert town.one("select count(*) from saved_search_deliveries") == (0,)
    # The page is still known: publishing it again sends nothing.
    town.published.link.unlink()
    town.run()
    assert town.one("select count(*) from publications") == (2,)
    assert len(mail_server.mails) == 1
