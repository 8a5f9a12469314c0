"""Reads, removes and restores jobs in the Redis of legacy clerk, with the RQ package (the extra `clerk[legacy]`).

Jobs are pickles, and loading a pickle can call any function. Only plain values are loaded, because anybody who can
write to the Redis could store a malicious pickle.
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

from clerk.config import redact_url
from clerk.errors import EXIT_UNKNOWN, ClerkError

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline
    from rq import Queue

WAITING, SCHEDULED, DEFERRED, STARTED, FAILED = "waiting", "scheduled", "deferred", "started", "failed"
STATUSES = (WAITING, SCHEDULED, DEFERRED, STARTED, FAILED)
"""The statuses of jobs that matter here; finished and cancelled jobs are ignored."""
_BATCH_SIZE = 500
_MAX_CONTENT_BYTES = 16_000_000
"""Of one decompressed value. Jobs of legacy clerk have some kilobytes; a malicious value could be a bomb."""
_SAFE_CLASSES = {("datetime", "datetime"), ("datetime", "date"), ("datetime", "timezone"), ("datetime", "timedelta"),
          ("uuid", "UUID"), ("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"), ("decimal", "Decimal")}  # fmt: skip


class RedisUnreachable(ClerkError):
    """The server cannot be reached, or it is not a Redis."""

    code = "RedisUnreachable"
    exit_code = EXIT_UNKNOWN


class NotLegacyRedis(ClerkError):
    """The Redis has no RQ queue."""

    code = "NotLegacyRedis"


@dataclass(frozen=True)
class LegacyJob:
    id: str
    queue: str
    status: str
    score: float | None
    """Its score in the registry: when it is due, or expires."""
    function: str | None
    site: str | None
    kwargs: dict[str, Any]
    created_at: datetime | None
    error: str | None
    keys: dict[str, str]
    """Redis key → output of DUMP, in base64."""
    ttls: dict[str, int] = field(default_factory=dict)
    """Redis key → remaining time to live in milliseconds; other keys do not expire."""
    problem: str | None = None
    """Why it cannot be decoded."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _SafeUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _SAFE_CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")
        return super().find_class(module, name)


class SafePickleSerializer:
    """Serializer for RQ that loads plain values only."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        return pickle.dumps(value)

    @staticmethod
    def loads(data: bytes) -> Any:
        return _SafeUnpickler(io.BytesIO(data)).load()


@contextlib.contextmanager
def connect(url: str) -> Iterator[Redis]:
    try:
        import redis
        import rq  # noqa: F401 (checks that it is installed)
    except ImportError as error:
        raise RedisUnreachable(
            "the packages for the Redis of legacy clerk are not installed", "pip install 'clerk[legacy]'"
        ) from error

    def unusable(error: Exception) -> RedisUnreachable:
        reason = " ".join(str(error).split())[:200]
        return RedisUnreachable(
            f"the Redis at {redact_url(url)} cannot be used ({reason})", "start it, or correct REDIS_URL"
        )

    with contextlib.ExitStack() as stack:
        try:
            connection = redis.Redis.from_url(url, socket_timeout=30, socket_connect_timeout=10)
            stack.callback(connection.close)
            connection.ping()
        except (redis.RedisError, ValueError) as error:  # ValueError: an invalid URL or host name
            raise unusable(error) from error
        try:
            yield connection
        except redis.RedisError as error:
            raise unusable(error) from error


def list_queues(connection: Redis) -> list[Queue]:
    from redis.exceptions import ResponseError
    from rq import Queue

    try:
        queues = Queue.all(connection=connection, serializer=SafePickleSerializer)
    except (ResponseError, ValueError) as error:
        raise NotLegacyRedis(f"the Redis has other data under the keys of RQ ({error})", _REMEDY) from error
    return sorted(queues, key=lambda queue: queue.name)


_REMEDY = "set REDIS_URL to the Redis of legacy clerk, with its database number (redis://host:6379/0)"


def require_rq(connection: Redis) -> None:
    if not list_queues(connection):
        raise NotLegacyRedis("the Redis has no RQ queue", _REMEDY)


def list_workers(connection: Redis) -> list[str]:
    """Names of live RQ workers. RQ's own function is not used: it removes dead workers from Redis."""
    from redis.exceptions import ResponseError
    from rq import Worker, worker_registration

    try:
        known = worker_registration.get_keys(connection=connection)
    except ResponseError as error:
        raise NotLegacyRedis(f"the Redis has other data under the keys of RQ ({error})", _REMEDY) from error
    return sorted(key.removeprefix(Worker.redis_worker_namespace_prefix) for key in known if connection.exists(key))


def summarize(connection: Redis) -> dict[str, Any]:
    listed = list_jobs(connection)
    counts: dict[str, dict[str, int]] = {queue.name: dict.fromkeys(STATUSES, 0) for queue in list_queues(connection)}
    for queue, status, ids in listed.entries:
        counts[queue.name][status] = len(ids)
    return {"workers": list_workers(connection), "queues": counts, "problems": listed.problems}


@dataclass
class Listing:
    entries: list[tuple[Queue, str, list[tuple[str, float | None]]]] = field(default_factory=list)
    """Queue, status, and the ids with their scores."""
    problems: list[str] = field(default_factory=list)
    """Queues and registries whose keys have other data."""


def list_jobs(connection: Redis) -> Listing:
    from redis.exceptions import ResponseError

    listed = Listing()
    for queue in list_queues(connection):
        for status in STATUSES:
            try:
                listed.entries.append((queue, status, _ids(queue, status)))
            except ResponseError as error:
                listed.problems.append(f"{queue.name} {status} cannot be read ({error})")
    return listed


def read_jobs(connection: Redis, listed: Listing) -> Iterator[LegacyJob]:
    """All unfinished and failed jobs. Jobs that cannot be decoded have a `problem`."""
    for queue, status, ids in listed.entries:
        for start in range(0, len(ids), _BATCH_SIZE):
            batch = ids[start : start + _BATCH_SIZE]
            keys = _read(connection, [job_id for job_id, _ in batch])
            for (job_id, score), job_keys in zip(batch, keys, strict=True):
                yield _decode_job(job_id, queue.name, status, score, job_keys)


def _ids(queue: Queue, status: str) -> list[tuple[str, float | None]]:
    """Ids and scores. RQ's own methods are not used: they remove expired entries."""
    connection: Any = queue.connection
    if status == WAITING:
        return [(_text(key), None) for key in connection.lrange(queue.key, 0, -1)]
    registry = _registry(queue, status)
    entries = connection.zrange(registry.key, 0, -1, withscores=True)
    return [(registry.parse_job_id(_text(key)), score) for key, score in entries]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _registry(queue: Queue, status: str) -> Any:
    return {
        SCHEDULED: queue.scheduled_job_registry,
        DEFERRED: queue.deferred_job_registry,
        STARTED: queue.started_job_registry,
        FAILED: queue.failed_job_registry,
    }[status]


@dataclass(frozen=True)
class _JobKeys:
    """The Redis keys of a job."""

    content: Any
    """The job's hash; an exception if the key has another type."""
    keys: dict[str, str]
    ttls: dict[str, int]


def _read(connection: Redis, ids: list[str]) -> list[_JobKeys]:
    from rq.job import Job

    keys_of_jobs = []
    with connection.pipeline(transaction=False) as pipe:
        for job_id in ids:
            pipe.hgetall(Job.key_for(job_id))
            for name in _key_names(job_id):
                # PTTL before DUMP: a key that could be dumped still had its time to live.
                pipe.pttl(name)
                pipe.dump(name)
        replies = iter(pipe.execute(raise_on_error=False))
    for job_id in ids:
        content, keys, ttls = next(replies), {}, {}
        for name in _key_names(job_id):
            ttl, dumped = next(replies), next(replies)
            if dumped is not None:
                keys[name] = base64.b64encode(dumped).decode()
                if ttl >= 0:
                    ttls[name] = ttl
        keys_of_jobs.append(_JobKeys(content, keys, ttls))
    return keys_of_jobs


def _key_names(job_id: str) -> list[str]:
    """The names of a job's keys. RQ's own function for the last one rejects some ids."""
    from rq.job import Job

    prefix = Job.redis_job_namespace_prefix
    return [Job.key_for(job_id), Job.dependents_key_for(job_id), f"{prefix}:{job_id}:dependencies"]


def _decode_job(job_id: str, queue: str, status: str, score: float | None, job: _JobKeys) -> LegacyJob:
    kwargs: dict[str, Any] = {}
    function = created_at = error = problem = None
    if not job.content:
        problem = "only its id is left"
    elif not isinstance(job.content, dict):
        problem = "its key is not a job"
    elif not job.content.get(b"data"):
        problem = "it has no content"
    else:
        created_at = _time(job.content.get(b"created_at"))
        try:
            data, traceback = (_decompress(job.content.get(name) or b"") for name in (b"data", b"exc_info"))
            lines = traceback.decode("utf-8", "replace").strip().splitlines()
            error = lines[-1][:500] if lines and status == FAILED else None
            function, kwargs = _decode_call(data)
        except _TooLarge:
            # RQ would decompress it completely; a job with a problem is left alone.
            problem = f"its content has more than {_MAX_CONTENT_BYTES:,} bytes"
        except _UndecodableJob:
            problem = "its content cannot be decoded"
    site = kwargs.get("subdomain")
    return LegacyJob(
        id=job_id,
        queue=queue,
        status=status,
        score=score,
        function=function,
        site=site if isinstance(site, str) else None,
        kwargs=kwargs,
        created_at=created_at,
        error=error,
        keys=job.keys,
        ttls=job.ttls,
        problem=problem,
    )


class _UndecodableJob(Exception):
    pass


class _TooLarge(Exception):
    pass


def _decode_call(data: bytes) -> tuple[str, dict[str, Any]]:
    """The function's name without its module, and its keyword arguments as JSON values."""
    try:
        name, _, _, kwargs = SafePickleSerializer.loads(data)
    except Exception as error:  # an invalid or malicious pickle can raise anything
        raise _UndecodableJob from error
    if not isinstance(name, str) or not isinstance(kwargs, dict):
        raise _UndecodableJob
    plain = {str(key): value if _is_json(value) else str(value) for key, value in kwargs.items()}
    return name.rpartition(".")[2], plain


def _decompress(data: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        content = decompressor.decompress(data, _MAX_CONTENT_BYTES + 1)
    except zlib.error:  # RQ stores some values uncompressed
        content = data
    if len(content) > _MAX_CONTENT_BYTES:
        raise _TooLarge
    return content


def _time(value: bytes | None) -> datetime | None:
    try:
        return datetime.fromisoformat(_text(value)) if value else None
    except ValueError:
        return None


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def cancel(connection: Redis, job: LegacyJob) -> str | None:
    """Cancel the job through RQ. Returns RQ's error, if any: an invalid field, or the job has expired."""
    from redis import exceptions
    from rq.job import Job

    try:
        Job.fetch(job.id, connection=connection, serializer=SafePickleSerializer).cancel()
        # RQ removes the job only from the queue that the job names.
        connection.zrem(_registry(_queue(connection, job), job.status).key, job.id)
    except (exceptions.ConnectionError, exceptions.TimeoutError):
        raise
    except Exception as error:  # noqa: BLE001 (an invalid field can raise anything; the other jobs are still cancelled)
        return f"{type(error).__name__}: {error}"[:200]
    return None


def delete(connection: Redis, removed: list[LegacyJob]) -> dict[str, str]:
    """Delete the jobs in batches: RQ itself needs a dozen round trips per job. Returns job id → error."""
    failed: dict[str, str] = {}
    for start in range(0, len(removed), _BATCH_SIZE):
        batch, commands = removed[start : start + _BATCH_SIZE], []
        with connection.pipeline(transaction=False) as pipe:
            for job in batch:
                queue = _queue(connection, job)
                before = len(pipe)
                if job.status == STARTED:
                    _remove_started(pipe, queue, job)
                elif job.status == WAITING:
                    pipe.lrem(queue.key, 0, job.id)
                else:
                    pipe.zrem(_registry(queue, job.status).key, job.id)
                if job.keys:
                    pipe.delete(*job.keys)
                commands.append(len(pipe) - before)
            replies = iter(pipe.execute(raise_on_error=False))
        for job, count in zip(batch, commands, strict=True):
            errors = [reply for reply in islice(replies, count) if isinstance(reply, Exception)]
            if errors:
                failed[job.id] = f"cannot be removed ({errors[0]})"
    return failed


def _queue(connection: Redis, job: LegacyJob) -> Queue:
    from rq import Queue

    return Queue(job.queue, connection=connection, serializer=SafePickleSerializer)


def _remove_started(pipe: Pipeline, queue: Queue, job: LegacyJob) -> None:
    """A started job is listed by its executions; in older versions of RQ, by its id."""
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
    """Job id → error."""


def restore(connection: Redis, removed: Iterable[LegacyJob], dry_run: bool = False) -> RestoreResult:
    """Restore removed jobs with their queue, status and time to live. Existing jobs are not changed."""
    from redis.exceptions import ResponseError

    result = RestoreResult()
    existing: dict[tuple[str, str], set[str]] = {}
    for job in removed:
        queue = _queue(connection, job)
        try:
            if (job.queue, job.status) not in existing:
                existing[job.queue, job.status] = {key for key, _ in _ids(queue, job.status)}
            if job.id in existing[job.queue, job.status]:
                continue
            contents = {key: base64.b64decode(dumped, validate=True) for key, dumped in job.keys.items()}
            if not dry_run:
                # First the keys, then the queue: a queued id without a job is worse than a job without a queue.
                with connection.pipeline(transaction=True) as pipe:
                    for key, content in contents.items():
                        pipe.restore(key, job.ttls.get(key, 0), content, replace=True)
                    pipe.execute()
                _requeue(connection, queue, job)
        except (ResponseError, ValueError) as error:
            result.failed[job.id] = f"cannot be restored ({error})"
        else:
            result.jobs += 1
    return result


def _requeue(connection: Redis, queue: Queue, job: LegacyJob) -> None:
    from rq.registry import CanceledJobRegistry

    with connection.pipeline(transaction=True) as pipe:
        pipe.sadd(queue.redis_queues_keys, queue.key)
        pipe.zrem(CanceledJobRegistry(job.queue, connection=connection).key, job.id)
        # A job that was running when it was removed has lost its worker, so it is queued.
        if job.status in (WAITING, STARTED):
            pipe.rpush(queue.key, job.id)
        else:
            pipe.zadd(_registry(queue, job.status).key, {job.id: job.score or 0})
        pipe.execute()
