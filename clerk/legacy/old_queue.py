"""The older system's Redis, read and emptied with RQ's own package (the extra `clerk[legacy]`).

Jobs are pickles. Only plain values in them are understood: a pickle can name any function to be called when it is
loaded, and whoever can write to a Redis could write one.
"""

from __future__ import annotations

import base64
import contextlib
import io
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clerk.errors import CANNOT_TELL, ClerkError
from clerk.values import without_password

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue
    from rq.job import Job

WAITING, SCHEDULED, DEFERRED, STARTED, FAILED = "waiting", "scheduled", "deferred", "started", "failed"
PLACES = (WAITING, SCHEDULED, DEFERRED, STARTED, FAILED)
"""Where a job of a queue can be; what is finished or cancelled is of no interest."""
_AT_ONCE = 500
_PLAIN = {("datetime", "datetime"), ("datetime", "date"), ("datetime", "timezone"), ("datetime", "timedelta"),
          ("uuid", "UUID"), ("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"), ("decimal", "Decimal")}  # fmt: skip


class RedisUnreachable(ClerkError):
    """Nothing answers, or something that is not a Redis."""

    exit_code = CANNOT_TELL


class NotOfTheOlderSystem(ClerkError):
    """A Redis without a queue of RQ's in it."""


@dataclass(frozen=True)
class OldJob:
    id: str
    queue: str
    place: str
    score: float | None
    """In its registry: when it is due, or was to be forgotten."""
    function: str | None
    """None: its content cannot be understood."""
    site: str | None
    kwargs: dict[str, Any]
    created_at: datetime | None
    error: str | None
    keys: dict[str, str]
    """Redis key → what Redis itself makes of it with DUMP, in base64."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PLAIN:
            raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")
        return super().find_class(module, name)


class PlainPickles:
    """RQ's serializer for whoever only wants to look."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        return pickle.dumps(value)

    @staticmethod
    def loads(data: bytes) -> Any:
        return _Plain(io.BytesIO(data)).load()


@contextlib.contextmanager
def connect(url: str) -> Iterator[Redis]:
    try:
        import redis
        import rq  # noqa: F401 (both or neither)
    except ImportError as error:
        raise RedisUnreachable(
            "the packages for the older system's Redis are not installed", "pip install 'clerk[legacy]'"
        ) from error
    try:
        with contextlib.closing(redis.Redis.from_url(url, socket_timeout=30, socket_connect_timeout=10)) as connection:
            connection.ping()
            yield connection
    except (redis.RedisError, ValueError, OSError) as error:
        said = " ".join(str(error).split())[:200]
        raise RedisUnreachable(
            f"the Redis at {without_password(url)} cannot be used ({said})", "start it or mend REDIS_URL"
        ) from error


def queues(connection: Redis) -> list[Queue]:
    from redis.exceptions import ResponseError
    from rq import Queue

    try:
        found = Queue.all(connection=connection, serializer=PlainPickles)
    except (ResponseError, ValueError) as error:
        raise NotOfTheOlderSystem(f"the Redis holds something else under RQ's names ({error})", _REMEDY) from error
    return sorted(found, key=lambda queue: queue.name)


_REMEDY = "name the older system's Redis, with its database number, in REDIS_URL (redis://host:6379/0)"


def require_rq(connection: Redis) -> None:
    if not queues(connection):
        raise NotOfTheOlderSystem("the Redis holds no queue of RQ", _REMEDY)


def workers(connection: Redis) -> list[str]:
    """Names of the RQ workers that are alive."""
    from rq import Worker

    return sorted(worker.name for worker in Worker.all(connection=connection, serializer=PlainPickles))


def summary(connection: Redis) -> dict[str, Any]:
    counts = {queue.name: {place: len(_ids(queue, place)) for place in PLACES} for queue in queues(connection)}
    return {"workers": workers(connection), "queues": counts}


def jobs(connection: Redis) -> Iterator[OldJob]:
    """Every job that is still to be done, or failed."""
    from rq.job import Job

    for queue in queues(connection):
        for place in PLACES:
            ids = _ids(queue, place)
            for start in range(0, len(ids), _AT_ONCE):
                some = ids[start : start + _AT_ONCE]
                found = Job.fetch_many([key for key, _ in some], connection=connection, serializer=PlainPickles)
                there = [(job, score) for job, (_, score) in zip(found, some, strict=True) if job is not None]
                dumps = _dump(connection, [job for job, _ in there])
                for (job, score), dumped in zip(there, dumps, strict=True):
                    yield _old_job(queue.name, place, job, score, dumped)


def _ids(queue: Queue, place: str) -> list[tuple[str, float | None]]:
    """Ids and scores, without the tidying that RQ does when its own methods look."""
    if place == WAITING:
        return [(key, None) for key in queue.get_job_ids()]
    registry = _registry(queue, place)
    entries: Any = queue.connection.zrange(registry.key, 0, -1, withscores=True)
    return [(registry.parse_job_id(key.decode()), score) for key, score in entries]


def _registry(queue: Queue, place: str) -> Any:
    return {
        SCHEDULED: queue.scheduled_job_registry,
        DEFERRED: queue.deferred_job_registry,
        STARTED: queue.started_job_registry,
        FAILED: queue.failed_job_registry,
    }[place]


def _dump(connection: Redis, found: list[Job]) -> list[dict[str, str]]:
    keys = [[job.key, job.dependents_key, job.dependencies_key] for job in found]
    with connection.pipeline(transaction=False) as pipe:
        for names in keys:
            for name in names:
                pipe.dump(name)
        dumped = iter(pipe.execute())
    return [
        {name: base64.b64encode(value).decode() for name in names if (value := next(dumped)) is not None}
        for names in keys
    ]


def _old_job(queue: str, place: str, job: Job, score: float | None, keys: dict[str, str]) -> OldJob:
    from rq.exceptions import DeserializationError

    function, kwargs = None, {}
    with contextlib.suppress(DeserializationError):
        function = (job.func_name or "").rpartition(".")[2] or None
        kwargs = {str(name): value if _is_json(value) else str(value) for name, value in (job.kwargs or {}).items()}
    said = (job._exc_info or "").strip().splitlines() if place == FAILED else []
    site = kwargs.get("subdomain")
    return OldJob(
        job.id,
        queue,
        place,
        score,
        function,
        site if isinstance(site, str) else None,
        kwargs,
        job.created_at,
        said[-1][:500] if said else None,
        keys,
    )


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def cancel(connection: Redis, job: OldJob) -> None:
    from rq.job import Job

    Job.fetch(job.id, connection=connection, serializer=PlainPickles).cancel()


def delete(connection: Redis, removed: list[OldJob]) -> None:
    """From where they were found, many at a time: RQ's own way is a dozen round trips for each of thousands."""
    from rq import Queue
    from rq.job import Job

    with connection.pipeline(transaction=False) as pipe:
        for job in removed:
            queue = Queue(job.queue, connection=connection, serializer=PlainPickles)
            if job.place == STARTED:  # listed there by its execution, which RQ finds
                Job.fetch(job.id, connection=connection, serializer=PlainPickles).delete(pipeline=pipe)
            elif job.place == WAITING:
                pipe.lrem(queue.key, 0, job.id)
            else:
                pipe.zrem(_registry(queue, job.place).key, job.id)
            pipe.delete(*job.keys)
        pipe.execute()


def put_back(connection: Redis, removed: Iterable[OldJob]) -> int:
    """What was removed, where it was. Returns how many jobs; those that are there already stay as they are."""
    from rq import Queue
    from rq.registry import CanceledJobRegistry

    count = 0
    there: dict[tuple[str, str], set[str]] = {}
    for job in removed:
        queue = Queue(job.queue, connection=connection, serializer=PlainPickles)
        if (job.queue, job.place) not in there:
            there[job.queue, job.place] = {key for key, _ in _ids(queue, job.place)}
        if job.id in there[job.queue, job.place]:
            continue
        with connection.pipeline(transaction=True) as pipe:
            for key, dumped in job.keys.items():
                pipe.restore(key, 0, base64.b64decode(dumped), replace=True)
            pipe.sadd(Queue.redis_queues_keys, queue.key)
            pipe.zrem(CanceledJobRegistry(job.queue, connection=connection).key, job.id)
            # A job that ran when it was removed has no worker to come back to: it waits.
            if job.place in (WAITING, STARTED):
                pipe.rpush(queue.key, job.id)
            else:
                pipe.zadd(_registry(queue, job.place).key, {job.id: job.score or 0})
            pipe.execute()
        count += 1
    return count
