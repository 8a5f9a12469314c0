"""Fairness between sites: a property of the fetch order, and the guards that it needs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clerk.pipeline import engine
from tests.engine.helpers import Connection, Worker, add_site, one
from tests.engine.test_guards import edit_function as edit_function
from tests.engine.test_guards import guarded

START, FETCH = "start", "fetch"
Step = tuple[str, int, int]
"""A site joins with so many documents and this weight; or a worker fetches so many jobs, so many times."""
joins = st.tuples(st.just(START), st.integers(1, 15), st.integers(1, 4))
fetches = st.tuples(st.just(FETCH), st.integers(1, 6), st.integers(1, 4))


def start_ocr(connection: Connection, subdomain: str, documents: int, weight: int = 1) -> None:
    add_site(connection, subdomain, documents)
    connection.execute("update sites set weight = %s where subdomain = %s", [weight, subdomain])
    engine.start_run(connection, subdomain, "test", first_phase=2)


def fetched_sites(worker: Worker, slots: int) -> list[str]:
    return [str(job.args["subdomain"]) for job in worker.finish_and_fetch([], "ocr", slots=slots)[1]]


class Shares:
    """How many jobs each site has waiting, and the differences between the shares of two sites while both wait."""

    def __init__(self) -> None:
        self.weights: dict[str, int] = {}
        self.waiting: dict[str, int] = {}
        self.lowest: dict[tuple[str, str], float] = {}
        self.highest: dict[tuple[str, str], float] = {}
        self.difference: dict[tuple[str, str], float] = {}

    def join(self, site: str, documents: int, weight: int) -> None:
        for other in self.weights:
            pair = (other, site)
            self.difference[pair] = self.lowest[pair] = self.highest[pair] = 0
        self.weights[site], self.waiting[site] = weight, documents

    def fetched(self, site: str) -> None:
        for pair in combinations(self.weights, 2):
            if site in pair and all(self.waiting[name] for name in pair):
                self.difference[pair] += (1 if site == pair[0] else -1) / self.weights[site]
                self.lowest[pair] = min(self.lowest[pair], self.difference[pair])
                self.highest[pair] = max(self.highest[pair], self.difference[pair])
        self.waiting[site] -= 1

    def check(self) -> None:
        for (one_site, other), highest in self.highest.items():
            bound = 1 / self.weights[one_site] + 1 / self.weights[other]
            spread = highest - self.lowest[one_site, other]
            assert spread <= bound + 1e-9, (one_site, other, spread, bound)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([(START, 15, 1), (START, 15, 3), (FETCH, 1, 4), (START, 9, 2), (FETCH, 5, 4)])
@given(st.lists(st.one_of(joins, fetches), min_size=4, max_size=14))
def test_shares_differ_by_at_most_one_turn(connection: Connection, steps: list[Step]) -> None:
    """Of any two sites, in any part of the fetch order in which both have waiting jobs: the numbers of their jobs, each
    divided by the site's weight, differ by at most 1/weight of the one plus 1/weight of the other."""
    shares = Shares()
    with connection.transaction(force_rollback=True):
        worker = Worker(connection)
        for number, (kind, amount, parameter) in enumerate([*steps, (FETCH, 6, 40)]):
            if kind == START:
                start_ocr(connection, f"site{number}", amount, parameter)
                shares.join(f"site{number}", amount, parameter)
                continue
            for _ in range(parameter):
                for name in fetched_sites(worker, amount):
                    shares.fetched(name)
    assert not any(shares.waiting.values()), "every job is fetched"
    shares.check()


@guarded
def test_paused_jobs_do_not_hold_the_turn(
    connection: Connection, edit_function: Callable[..., None], guarded: bool
) -> None:
    """Otherwise a new site would begin at the turn of the pause, and be served alone until it reaches the others."""
    if not guarded:
        edit_function("clerk_pause_site", (", turn = case when j.turn = 0 then 0 end", ""))
    worker = Worker(connection)
    start_ocr(connection, "paused", 30)
    engine.pause_site(connection, "paused", "test")
    start_ocr(connection, "city", 60)
    fetched_sites(worker, 30)
    start_ocr(connection, "town", 30)
    assert fetched_sites(worker, 20).count("town") == (10 if guarded else 20)


@guarded
def test_returned_jobs_do_not_hold_the_turn(
    connection: Connection, edit_function: Callable[..., None], guarded: bool
) -> None:
    """The same with a job that waits for its retry."""
    if not guarded:
        edit_function("clerk_hold_paused", ("    new.turn := 0;\n", ""))
    worker = Worker(connection)
    start_ocr(connection, "city", 60)
    first = worker.take("ocr")
    fetched_sites(worker, 29)
    assert worker.retry(first)
    connection.execute(
        "update procrastinate_jobs set scheduled_at = now() + interval '1 hour' where status = 'todo' and id = %s",
        [first.id],
    )
    start_ocr(connection, "town", 30)
    assert fetched_sites(worker, 20).count("town") == (10 if guarded else 20)


@guarded
def test_released_jobs_get_new_turns(connection: Connection, edit_function: Callable[..., None], guarded: bool) -> None:
    """Otherwise they would all go first."""
    if not guarded:
        edit_function(
            "clerk_release_paused_jobs", ("        perform clerk_number_jobs(v_subdomain);\n", "        null;\n")
        )
    worker = Worker(connection)
    start_ocr(connection, "paused", 30)
    engine.pause_site(connection, "paused", "test")
    start_ocr(connection, "city", 60)
    fetched_sites(worker, 20)
    engine.resume_site(connection, "paused")
    assert fetched_sites(worker, 20).count("paused") == (10 if guarded else 20)


@guarded
def test_an_empty_queue_continues_the_turns_of_the_other(
    connection: Connection, edit_function: Callable[..., None], guarded: bool
) -> None:
    """A worker processes OCR and extraction. Otherwise the extraction would be served alone until it reaches OCR."""
    if not guarded:
        edit_function("clerk_first_turn", (" min(first.turn), 1)", " 1)"))
    worker = Worker(connection)
    start_ocr(connection, "city", 200)
    start_ocr(connection, "town", 20)
    _, fetched = worker.finish_and_fetch([], "ocr", slots=40)
    worker.finish_all(fetched)
    worker.coordinate(worker.take("coordinator"))
    worker.take("compilation")
    assert one(
        connection, "select count(*) from procrastinate_jobs where status = 'todo' and queue_name = 'extraction'"
    )
    found = worker.finish_and_fetch([], "ocr", "extraction", slots=20)[1]
    assert sum(job.queue == "extraction" for job in found) == (10 if guarded else 20)
