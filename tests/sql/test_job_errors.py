"""Errors of attempts at a job: stored with the change of its status, limited in number, deleted with the job."""

from __future__ import annotations

import pytest

from clerk.humanize import format_traceback
from tests.engine.helpers import Connection, Worker, add_site, one, rows, start


def _errors(connection: Connection, job_id: int) -> list[tuple[int, str, str | None]]:
    query = "select attempt, error_code, traceback from job_failures where job_id = %s"
    return rows(connection, query, [job_id])


def test_each_failed_attempt_keeps_its_error_until_the_job_is_deleted(connection: Connection) -> None:
    add_site(connection, documents=2)
    start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")
    other = worker.take("ocr")

    assert worker.retry(job, code="PdfTimeout", message="slow")
    job = worker.take("ocr")
    assert worker.finish(job, "failed", "PdfBroken", "broken")
    assert worker.finish(other)

    assert _errors(connection, job.id) == [
        (1, "PdfTimeout", "Traceback of PdfTimeout"),
        (2, "PdfBroken", "Traceback of PdfBroken"),
    ]
    assert _errors(connection, other.id) == []
    assert one(connection, "select holder = current_setting('application_name') from job_failures limit 1")
    connection.execute("delete from procrastinate_jobs where id = %s", [job.id])
    assert one(connection, "select count(*) from job_errors") == 0


def test_the_last_ten_errors_of_a_job_are_kept(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    for _ in range(13):
        job = worker.take("ocr")
        assert worker.retry(job, code="PdfTimeout")
    assert [attempt for attempt, *_ in _errors(connection, job.id)] == list(range(4, 14))


def test_a_rejected_result_leaves_no_error(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")
    connection.execute("update job_claims set lease_until = now() - interval '1 minute'")
    assert one(connection, "select clerk_rescue_job(%s)", [job.id]) == "rescued"
    assert not worker.finish(job, "failed", "PdfBroken")
    assert _errors(connection, job.id) == [(1, "WorkerLost", None)]


def test_secrets_in_arguments_are_not_shown(connection: Connection) -> None:
    connection.execute(
        """
        insert into procrastinate_jobs (queue_name, task_name, args) values ('other', 'plugin.push',
            '{"api_key": "abc", "url": "https://me:pw@host/x", "headers": {"Authorization": "abc"}, "pages": [1, 2],
              "run_id": "none"}')
        """
    )
    assert one(connection, "select args from job_overview") == {
        "api_key": "not shown",
        "url": "https://host/x",
        "headers": "not shown",
        "pages": [1, 2],
        "run_id": "none",
    }


def test_a_stored_traceback_has_no_secrets_and_is_limited() -> None:
    def fail(depth: int) -> None:
        if depth:
            fail(depth - 1)
        raise ValueError("no answer of https://anna:pw@town.gov/list?token=abc, NUL \0")

    with pytest.raises(ValueError, match="no answer") as caught:
        fail(1)
    text = format_traceback(caught.value)
    assert "in fail" in text
    assert text.endswith("no answer of https://town.gov/list?… NUL")
    caught.value.add_note("x" * 9000 + "\nthe end")
    assert len(format_traceback(caught.value)) <= 8000
    assert format_traceback(caught.value).endswith("the end")
