"""Saved searches from a run to the receivers: every new page is delivered once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to, read_only_snapshot
from clerk.monitoring.status import read_status
from clerk.publish import publications
from clerk.reconcile.apply import rescue_expired
from clerk.saved_searches import deliveries
from tests.archive.helpers import write_texts
from tests.conftest import Url
from tests.publish.helpers import Town
from tests.publish.test_killed_workers import run_worker
from tests.saved_searches.helpers import BIKES, BUDGET, JUNE, MAY, deliver, fields, save_search
from tests.saved_searches.receivers import HttpReceiver, MailServer

KILLING_PLUGIN = """
import os, pathlib, signal
from clerk import hookimpl

@hookimpl
def post_deploy(site):
    marker = pathlib.Path({folder!r}) / "killed"
    if os.environ.get("KILL_AT") == "post_deploy" and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_new_pages_are_sent_once(town: Town, mail_server: MailServer, receiver: HttpReceiver) -> None:
    save_search(town, mails=("desk@example.org",), webhooks=(receiver.url,), feed=True)
    town.add_document(BIKES, BUDGET)
    assert town.run() == "succeeded"
    (mail,) = mail_server.mails
    assert (mail["To"], mail["Subject"]) == ("desk@example.org", "clerk alert bikes: 1 page of springfield")
    assert "City Council, 2024-03-05 (minutes)" in mail_server.texts[0]
    assert "page 1" in mail_server.texts[0]
    assert BUDGET not in mail_server.texts[0]
    (request,) = receiver.requests
    (page,) = request.json["pages"]
    assert (page["site"], page["meeting"], page["page"]) == ("springfield", "City Council", 1)
    assert "bike lanes" in page["snippet"]
    # The same content again, and then a publication without a new match.
    assert town.run() == "succeeded"
    town.add_document(BUDGET, day=MAY)
    assert town.run() == "succeeded"
    assert town.one("select count(*) from publications") == (2,)
    assert (len(mail_server.mails), len(receiver.requests)) == (1, 1)
    # A new page is sent, and only that one.
    town.add_document(f"{BIKES} Again.", day=JUNE)
    town.run()
    assert [text.count("2024-03-05") for text in mail_server.texts] == [1, 0]
    assert "2024-06-04" in mail_server.texts[1]
    assert len(receiver.requests) == 2
    assert fields(town, "select distinct status from publication_matchings") == [("matched",)]
    assert fields(town, "select distinct status from saved_search_deliveries") == [("delivered",)]


def test_the_signature_of_a_webhook(town: Town, receiver: HttpReceiver) -> None:
    secret = save_search(town, webhooks=(receiver.url,))[receiver.url]
    town.add_document(BIKES)
    town.run()
    (request,) = receiver.requests
    content = b".".join(
        [request.headers["webhook-id"].encode(), request.headers["webhook-timestamp"].encode(), request.body]
    )
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    assert request.json["id"] == request.headers["webhook-id"]


def test_pages_that_were_published_before_are_not_sent(town: Town, mail_server: MailServer) -> None:
    town.add_document(BIKES)
    town.run()
    save_search(town, mails=("desk@example.org",))
    town.add_document(BUDGET, day=MAY)
    town.run()
    assert mail_server.mails == []


def test_a_changed_page_is_sent(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    document = town.add_document(BUDGET, BUDGET)
    town.run()
    write_texts(town.storage, document, [BUDGET, BIKES])
    town.run()
    (text,) = mail_server.texts
    assert "page 2 (changed or added)" in text
    assert town.one("select pages, new_pages, cardinality(page_ids) from published_pages") == (2, 1, 3)


def test_rollback_and_second_deployment_send_nothing(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    town.add_document(BUDGET)
    town.run()
    town.add_document(BIKES, day=MAY)
    town.run()
    assert len(mail_server.mails) == 1
    older, newer = town.published.previous(), town.published.current
    assert newer is not None
    town.published.switch_to(older)
    publications.record_rollback(town.connection, "springfield", older.content_hash, [newer.content_hash], "me")
    # An alert that was added after the page was published must not get it from the second deployment either.
    save_search(town, "later", mails=("later@example.org",))
    town.add_document(BUDGET, day=JUNE)
    town.run()
    assert town.one("select count(*), count(distinct content_hash) from publications") == (3, 3)
    # The folder is lost, so the same content is deployed again.
    town.published.link.unlink()
    town.run()
    assert town.one("select count(*), count(distinct content_hash) from publications") == (4, 3)
    assert town.one("select count(*) from publication_matchings where status = 'matched'") == (4,)
    assert len(mail_server.mails) == 1


def test_only_pages_of_the_given_sites(town: Town, mail_server: MailServer) -> None:
    save_search(town, sites=["shelbyville"], mails=("desk@example.org",))
    save_search(town, "here", sites=["springfield"], mails=("here@example.org",))
    town.add_document(BIKES)
    town.run()
    assert mail_server.recipients == ["here@example.org"]


def test_a_deploy_job_that_is_killed_before_its_end(town: Town, plugins_dir: Path, mail_server: MailServer) -> None:
    (plugins_dir / "killing.py").write_text(KILLING_PLUGIN.format(folder=str(town.folder)))
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.start()
    assert run_worker(kill_at="post_deploy") == -9
    assert town.one("select deployed_at is not null, announced_at from publications") == (True, None)
    town.connection.execute("update job_claims set lease_until = now() - interval '1 minute' where settled_as is null")
    rescue_expired(town.connection)
    town.work()
    deliver(town)
    assert town.one("select current_stage, outcome from sites") == ("completed", "succeeded")
    assert town.one("select count(*), count(announced_at) from publications") == (1, 1)
    assert town.one("select count(*) from publication_matchings") == (1,)
    assert len(mail_server.mails) == 1


@pytest.mark.parametrize("with_version", [True, False])
def test_the_first_publication_after_an_upgrade(town: Town, mail_server: MailServer, with_version: bool) -> None:
    """Pages of publications before the upgrade are not new, even if no earlier version is left to compare with."""
    town.add_document(BIKES)
    town.run()
    town.connection.execute("delete from publication_matchings")
    town.connection.execute("delete from published_pages")
    save_search(town, mails=("desk@example.org",))
    if not with_version:
        town.published.link.unlink()
        shutil.rmtree(town.published.versions_folder)
    town.add_document(f"{BIKES} Again.", day=MAY)
    town.run()
    assert ["2024-05-07" in text for text in mail_server.texts] == [True] * with_version
    assert town.one("select count(*) from published_pages") == (2,)
    town.add_document(f"{BIKES} Once more.", day=JUNE)
    town.run()
    assert "2024-06-04" in mail_server.texts[-1]
    assert len(mail_server.mails) == 1 + with_version


def test_a_failed_matching_does_not_fail_the_run(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    town.connection.execute("alter table saved_search_matches add constraint broken check (false) not valid")
    town.add_document(BIKES)
    assert town.run() == "succeeded"
    deliver(town)
    (row,) = fields(town, "select step, subdomain, status, error_code from failing_deliveries")
    assert row == ("match", "springfield", "failed_retryable", "UnexpectedError")
    town.connection.execute("alter table saved_search_matches drop constraint broken")
    deliver(town)
    assert fields(town, "select status from publication_matchings") == [("matched",)]
    assert len(mail_server.mails) == 1


def test_an_invalid_query_does_not_stop_the_other_alerts(town: Town, mail_server: MailServer) -> None:
    save_search(town, mails=("desk@example.org",))
    save_search(town, "broken", mails=("broken@example.org",))
    # `clerk alert add` refuses it; another version of clerk may have accepted it.
    town.connection.execute("update saved_searches set query = 'title:bike' where name = 'broken'")
    town.add_document(BIKES)
    town.run()
    assert mail_server.recipients == ["desk@example.org"]
    (row,) = fields(town, "select step, saved_search, error_code, error_message from failing_deliveries")
    assert row[:3] == ("query", "broken", "SavedQueryInvalid")
    assert "title" in row[3]
    town.connection.execute("update saved_searches set query = 'bike' where name = 'broken'")
    town.add_document(f"{BIKES} Again.", day=MAY)
    town.run()
    assert fields(town, "select * from failing_deliveries") == []


def test_a_page_is_recorded_once_per_alert(town: Town, mail_server: MailServer) -> None:
    """Even if clerk has lost the record of published pages."""
    save_search(town, mails=("desk@example.org",))
    town.add_document(BIKES)
    town.run()
    town.connection.execute("delete from published_pages")
    town.add_document(BUDGET, day=MAY)
    town.run()
    assert town.one("select new_pages, matches from publication_matchings order by publication_id desc limit 1") == (
        2,
        0,
    )
    assert len(mail_server.mails) == 1


def test_matches_of_an_alert_are_recorded_one_publication_at_a_time(town: Town, database: Url) -> None:
    """A delivery names its matches by a range of ids, which must be in order of commit."""
    save_search(town, feed=True)
    with connect_to(database) as other, other.transaction():
        assert list(deliveries.lock_saved_searches(other, [1]).values()) == [False]
        town.connection.execute("set lock_timeout = '1ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable), town.connection.transaction():
            deliveries.lock_saved_searches(town.connection, [1])


def test_a_slow_mail_server_delays_no_run(town: Town, mail_server: MailServer) -> None:
    """`clerk up --until-idle` does not wait for the retries of a delivery either."""
    save_search(town, mails=("desk@example.org",))
    mail_server.answers = ["451 later"] * 10
    town.add_document(BIKES)
    assert town.run() == "succeeded"
    with read_only_snapshot(town.connection):
        status = read_status(town.connection)
    (queue,) = [queue for queue in status.queues if queue["queue"] == "delivery"]
    assert (queue["waiting"], queue["scheduled"]) == (0, 1)
    assert status.open_jobs == 0
