"""The older system's Redis, read and emptied with RQ's own package (the extra `clerk[legacy]`).

Jobs are pickles. Only plain values in them are understood: a pickle can name any function to be called when it is
loaded, and whoever can write to a Redis could write one.
"""

from __future__ import annotations

import base64
import contextlib
import io
import pickle
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from clerk.errors import EXIT_UNKNOWN, ClerkError
from clerk.values import redact_url

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline
    from rq import Queue

WAITING, SCHEDULED, DEFERRED, STARTED, FAILED = "waiting", "scheduled", "deferred", "started", "failed"
PLACES = (WAITING, SCHEDULED, DEFERRED, STARTED, FAILED)
"""Where a job of a queue can be; what is finished or cancelled is of no interest."""
_AT_ONCE = 500
_PLAIN = {("datetime", "datetime"), ("datetime", "date"), ("datetime", "timezone"), ("datetime", "timedelta"),
          ("uuid", "UUID"), ("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"), ("decimal", "Decimal")}  # fmt: skip


class RedisUnreachable(ClerkError):
    """Nothing answers, or something that is not a Redis."""

    code = "RedisUnreachable"
    exit_code = EXIT_UNKNOWN


class NotOfTheOlderSystem(ClerkError):
    """A Redis without a queue of RQ's in it."""

    code = "NotOfTheOlderSystem"


@dataclass(frozen=True)
class OldJob:
    id: str
    queue: str
    place: str
    score: float | None
    """In its registry: when it is due, or was to be forgotten."""
    function: str | None
    site: str | None
    kwargs: dict[str, Any]
    created_at: datetime | None
    error: str | None
    keys: dict[str, str]
    """Redis key → what Redis itself makes of it with DUMP, in base64."""
    lives: dict[str, int] = field(default_factory=dict)
    """Redis key → milliseconds that it had to live; a key that is not in here stays for ever."""
    problem: str | None = None
    """Why its content cannot be understood."""

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

    def unusable(error: Exception) -> RedisUnreachable:
        said = " ".join(str(error).split())[:200]
        return RedisUnreachable(f"the Redis at {redact_url(url)} cannot be used ({said})", "start it or mend REDIS_URL")

    with contextlib.ExitStack() as stack:
        try:
            connection = redis.Redis.from_url(url, socket_timeout=30, socket_connect_timeout=10)
            stack.callback(connection.close)
            connection.ping()
        except (redis.RedisError, ValueError) as error:  # a URL or a host name that is none
            raise unusable(error) from error
        try:
            yield connection
        except redis.RedisError as error:
            raise unusable(error) from error


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
    """Names of the RQ workers that are alive. RQ's own list would remove those that are not from Redis."""
    from redis.exceptions import ResponseError
    from rq import Worker, worker_registration

    try:
        known = worker_registration.get_keys(connection=connection)
    except ResponseError as error:
        raise NotOfTheOlderSystem(f"the Redis holds something else under RQ's names ({error})", _REMEDY) from error
    return sorted(key.removeprefix(Worker.redis_worker_namespace_prefix) for key in known if connection.exists(key))


def summary(connection: Redis) -> dict[str, Any]:
    listed = listing(connection)
    counts: dict[str, dict[str, int]] = {queue.name: dict.fromkeys(PLACES, 0) for queue in queues(connection)}
    for queue, place, ids in listed.places:
        counts[queue.name][place] = len(ids)
    return {"workers": workers(connection), "queues": counts, "problems": listed.problems}


@dataclass
class Listing:
    places: list[tuple[Queue, str, list[tuple[str, float | None]]]] = field(default_factory=list)
    """Queue, place, and the ids there with their scores."""
    problems: list[str] = field(default_factory=list)
    """Places that hold something else than RQ's."""


def listing(connection: Redis) -> Listing:
    from redis.exceptions import ResponseError

    listed = Listing()
    for queue in queues(connection):
        for place in PLACES:
            try:
                listed.places.append((queue, place, _ids(queue, place)))
            except ResponseError as error:
                listed.problems.append(f"{queue.name} {place} cannot be read ({error})")
    return listed


def jobs(connection: Redis, listed: Listing) -> Iterator[OldJob]:
    """Every job that is still to be done, or failed. Those that nobody can make sense of say why."""
    for queue, place, ids in listed.places:
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            read = _read(connection, [job_id for job_id, _ in some])
            for (job_id, score), found in zip(some, read, strict=True):
                yield _old_job(job_id, queue.name, place, score, found)


def _ids(queue: Queue, place: str) -> list[tuple[str, float | None]]:
    """Ids and scores, without the tidying that RQ does when its own methods look."""
    connection: Any = queue.connection
    if place == WAITING:
        return [(_text(key), None) for key in connection.lrange(queue.key, 0, -1)]
    registry = _registry(queue, place)
    entries = connection.zrange(registry.key, 0, -1, withscores=True)
    return [(registry.parse_job_id(_text(key)), score) for key, score in entries]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _registry(queue: Queue, place: str) -> Any:
    return {
        SCHEDULED: queue.scheduled_job_registry,
        DEFERRED: queue.deferred_job_registry,
        STARTED: queue.started_job_registry,
        FAILED: queue.failed_job_registry,
    }[place]


@dataclass(frozen=True)
class _Found:
    """What Redis has of a job."""

    content: Any
    """Its hash; an error if it is something else."""
    keys: dict[str, str]
    lives: dict[str, int]


def _read(connection: Redis, ids: list[str]) -> list[_Found]:
    from rq.job import Job

    read = []
    with connection.pipeline(transaction=False) as pipe:
        for job_id in ids:
            pipe.hgetall(Job.key_for(job_id))
            for name in _key_names(job_id):
                # In this order: what is there to be dumped had a life when it was asked for.
                pipe.pttl(name)
                pipe.dump(name)
        answers = iter(pipe.execute(raise_on_error=False))
    for job_id in ids:
        content, keys, lives = next(answers), {}, {}
        for name in _key_names(job_id):
            life, dumped = next(answers), next(answers)
            if dumped is not None:
                keys[name] = base64.b64encode(dumped).decode()
                if life >= 0:
                    lives[name] = life
        read.append(_Found(content, keys, lives))
    return read


def _key_names(job_id: str) -> list[str]:
    """RQ's own names for them, which it gives only for ids that it likes."""
    from rq.job import Job

    prefix = Job.redis_job_namespace_prefix
    return [Job.key_for(job_id), Job.dependents_key_for(job_id), f"{prefix}:{job_id}:dependencies"]


def _old_job(job_id: str, queue: str, place: str, score: float | None, found: _Found) -> OldJob:
    kwargs: dict[str, Any] = {}
    function = created_at = error = problem = None
    if not found.content:
        problem = "nothing is left of it but its name"
    elif not isinstance(found.content, dict):
        problem = "its key holds something else than a job"
    elif not found.content.get(b"data"):
        problem = "it has no content"
    else:
        try:
            function, kwargs = _call(found.content[b"data"])
        except _NotUnderstood:
            problem = "its content cannot be understood"
        created_at = _time(found.content.get(b"created_at"))
        said = _inflated(found.content.get(b"exc_info") or b"").decode("utf-8", "replace").strip().splitlines()
        error = said[-1][:500] if said and place == FAILED else None
    site = kwargs.get("subdomain")
    return OldJob(
        id=job_id,
        queue=queue,
        place=place,
        score=score,
        function=function,
        site=site if isinstance(site, str) else None,
        kwargs=kwargs,
        created_at=created_at,
        error=error,
        keys=found.keys,
        lives=found.lives,
        problem=problem,
    )


class _NotUnderstood(Exception):
    pass


def _call(data: bytes) -> tuple[str, dict[str, Any]]:
    """The name of the function, without its module, and its keyword arguments as JSON has them."""
    try:
        name, _, _, kwargs = PlainPickles.loads(_inflated(data))
    except Exception as error:  # a pickle that is none, or a hostile one, can raise anything
        raise _NotUnderstood from error
    if not isinstance(name, str) or not isinstance(kwargs, dict):
        raise _NotUnderstood
    plain = {str(key): value if _is_json(value) else str(value) for key, value in kwargs.items()}
    return name.rpartition(".")[2], plain


def _inflated(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:  # RQ itself stores some plainly
        return data


def _time(said: bytes | None) -> datetime | None:
    try:
        return datetime.fromisoformat(_text(said)) if said else None
    except ValueError:
        return None


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def cancel(connection: Redis, job: OldJob) -> str | None:
    """As RQ does it. Returns why RQ could not: an odd field, or the job has expired."""
    from redis import exceptions
    from rq.job import Job

    try:
        Job.fetch(job.id, connection=connection, serializer=PlainPickles).cancel()
        # RQ goes by where the job says it belongs.
        connection.zrem(_registry(_queue(connection, job), job.place).key, job.id)
    except (exceptions.ConnectionError, exceptions.TimeoutError):
        raise
    except Exception as error:  # noqa: BLE001 (whatever an odd field makes RQ raise: the others are cancelled all the same)
        return f"{type(error).__name__}: {error}"[:200]
    return None


def delete(connection: Redis, removed: list[OldJob]) -> dict[str, str]:
    """From where they were found, many at a time: RQ's own way is a dozen round trips for each of thousands.
    Returns why those that could not be are still there."""
    failed: dict[str, str] = {}
    for start in range(0, len(removed), _AT_ONCE):
        some, commands = removed[start : start + _AT_ONCE], []
        with connection.pipeline(transaction=False) as pipe:
            for job in some:
                queue = _queue(connection, job)
                before = len(pipe)
                if job.place == STARTED:
                    _stop(pipe, queue, job)
                elif job.place == WAITING:
                    pipe.lrem(queue.key, 0, job.id)
                else:
                    pipe.zrem(_registry(queue, job.place).key, job.id)
                if job.keys:
                    pipe.delete(*job.keys)
                commands.append(len(pipe) - before)
            answers = iter(pipe.execute(raise_on_error=False))
        for job, count in zip(some, commands, strict=True):
            errors = [answer for answer in islice(answers, count) if isinstance(answer, Exception)]
            if errors:
                failed[job.id] = f"it cannot be removed ({errors[0]})"
    return failed


def _queue(connection: Redis, job: OldJob) -> Queue:
    from rq import Queue

    return Queue(job.queue, connection=connection, serializer=PlainPickles)


def _stop(pipe: Pipeline, queue: Queue, job: OldJob) -> None:
    """A job that runs is listed by its executions, in older versions of RQ by its id."""
    from rq.executions import ExecutionRegistry

    registry = _registry(queue, STARTED)
    entries: Any = queue.connection.zrange(registry.key, 0, -1)
    for entry in entries:
        if registry.parse_job_id(_text(entry)) == job.id:
            pipe.zrem(registry.key, entry)
            pipe.delete(f"rq:execution:{_text(entry)}")
    pipe.delete(ExecutionRegistry.key_template.format(job.id))


@dataclass
class RestoreResult:
    jobs: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Id → why not."""


def put_back(connection: Redis, removed: Iterable[OldJob], rehearse: bool = False) -> RestoreResult:
    """What was removed, where it was, with as long to live as it had. Those that are there already stay as they are."""
    from redis.exceptions import ResponseError

    done = RestoreResult()
    there: dict[tuple[str, str], set[str]] = {}
    for job in removed:
        queue = _queue(connection, job)
        try:
            if (job.queue, job.place) not in there:
                there[job.queue, job.place] = {key for key, _ in _ids(queue, job.place)}
            if job.id in there[job.queue, job.place]:
                continue
            contents = {key: base64.b64decode(dumped, validate=True) for key, dumped in job.keys.items()}
            if not rehearse:
                # First what it is, then where: a name in a queue without a job behind it would be worse than none.
                with connection.pipeline(transaction=True) as pipe:
                    for key, content in contents.items():
                        pipe.restore(key, job.lives.get(key, 0), content, replace=True)
                    pipe.execute()
                _list_again(connection, queue, job)
        except (ResponseError, ValueError) as error:
            done.failed[job.id] = f"it cannot be put back ({error})"
        else:
            done.jobs += 1
    return done


def _list_again(connection: Redis, queue: Queue, job: OldJob) -> None:
    from rq.registry import CanceledJobRegistry

    with connection.pipeline(transaction=True) as pipe:
        pipe.sadd(queue.redis_queues_keys, queue.key)
        pipe.zrem(CanceledJobRegistry(job.queue, connection=connection).key, job.id)
        # A job that ran when it was removed has no worker to come back to: it waits.
        if job.place in (WAITING, STARTED):
            pipe.rpush(queue.key, job.id)
        else:
            pipe.zadd(_registry(queue, job.place).key, {job.id: job.score or 0})
        pipe.execute()
