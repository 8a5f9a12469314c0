"""Parses docker-compose.yml like Compose and lists its problems. Needs no Docker engine."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import jsonschema
import yaml

from clerk import config
from clerk.cli import cli
from clerk.errors import ClerkError
from clerk.pipeline.engine import QUEUES
from clerk.web.auth import is_loopback

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
SECRETS = {"POSTGRES_PASSWORD": "p@ss/w:rd?", "CLERK_DASHBOARD_TOKEN": "token"}
"""Required variables, with characters that are special in URLs."""
OF_LIBPQ = {"PGPASSWORD"}
OF_POSTGRES_IMAGE = {"POSTGRES_DB", "POSTGRES_INITDB_ARGS", "POSTGRES_PASSWORD", "POSTGRES_USER"}
"""Variables in the documentation of the image; it ignores others."""

_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?:(?P<operator>:[-?])(?P<rest>[^}]*))?\}|(?P<bare>.?))")


class Missing(Exception):
    """A required variable is not set."""


def interpolated(value: Any, environment: Mapping[str, str]) -> Any:
    """Substitute variables as in the Compose specification: $$, ${A}, ${A:-default}, ${A:?error}."""
    if isinstance(value, dict):
        return {key: interpolated(part, environment) for key, part in value.items()}
    if isinstance(value, list):
        return [interpolated(part, environment) for part in value]
    return _VARIABLE.sub(lambda match: _value(match, environment), value) if isinstance(value, str) else value


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    if match["escaped"]:
        return "$"
    if match["name"] is None:
        raise Missing(f"${match['bare']} is no variable; a dollar is written $$")
    given = environment.get(match["name"], "")
    if not given and match["operator"] == ":?":
        raise Missing(f"{match['name']}: {match['rest']}")
    return given or (match["rest"] or "" if match["operator"] == ":-" else "")


def load(text: str, environment: Mapping[str, str] = SECRETS) -> dict[str, Any]:
    compose = interpolated(yaml.safe_load(text), environment)
    assert isinstance(compose, dict)
    return compose


def variables(text: str) -> set[str]:
    return {match["name"] for match in _VARIABLE.finditer(text) if match["name"]}


def problems(text: str) -> list[str]:
    """All problems, as sentences; schema errors first, because the other checks rely on the schema."""
    try:
        compose = load(text)
    except (Missing, yaml.YAMLError) as error:
        return [str(error)]
    return list(_against_schema(compose)) or [
        *_references(compose),
        *(problem for name, service in compose["services"].items() for problem in _service(name, service)),
        *_queues(compose),
        *_secrets(text),
    ]


def _against_schema(compose: dict[str, Any]) -> Iterator[str]:
    """Errors against the schema of the Compose specification, which check-jsonschema includes."""
    folder = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "compose-spec.json").read_text(encoding="utf-8"))
    for error in jsonschema.Draft202012Validator(schema).iter_errors(compose):
        yield f"{'/'.join(map(str, error.absolute_path))}: {error.message}"


def _references(compose: dict[str, Any]) -> Iterator[str]:
    services, volumes = compose["services"], compose.get("volumes", {})
    built = {service["image"] for service in services.values() if "build" in service}
    mounted = set()
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            target = services.get(needed)
            if target is None:
                yield f"{name}: waits for {needed}, which is not a service"
            elif how["condition"] == "service_healthy" and "healthcheck" not in target:
                yield f"{name}: waits until {needed} is healthy, but it has no health check"
            elif how["condition"] == "service_completed_successfully" and target.get("restart") != "no":
                yield f"{name}: waits until {needed} has ended, but it is restarted"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            mounted.add(source)
            if source not in volumes:
                yield f"{name}: mounts {source}, which is not a volume"
        if _is_clerk(service) and service["image"] not in built:
            yield f"{name}: nothing builds its image {service['image']}"
        if "/" in service["image"]:
            yield f"{name}: the image {service['image']} names a registry"
    yield from (f"nothing mounts the volume {volume}" for volume in volumes if volume not in mounted)


def _is_clerk(service: dict[str, Any]) -> bool:
    return bool(service["image"].startswith("clerk:"))


def _service(name: str, service: dict[str, Any]) -> Iterator[str]:
    one_shot = service.get("restart") == "no"
    if not one_shot and service.get("restart") != "always":
        yield f"{name}: is not restarted when it ends"
    if not one_shot and "healthcheck" not in service:
        yield f"{name}: has no health check"
    for port in service.get("ports", []):
        if not is_loopback(port.rpartition(":")[0].rpartition(":")[0]):
            yield f"{name}: is open to other machines by default ({port})"
    if not _is_clerk(service):
        yield from (f"{name}: {key} is unknown" for key in service["environment"] if key not in OF_POSTGRES_IMAGE)
        return
    try:
        context = parsed(service["command"])
    except click.ClickException as error:
        yield f"{name}: {service['command']}: {error.format_message()}"
        return
    yield from _environment(name, service, context)
    yield from _check(name, service)
    grace = context.params.get("grace")
    if grace is not None and grace >= _seconds(service["stop_grace_period"]):
        yield f"{name}: is killed after {service['stop_grace_period']}, while jobs may still run"
    if context.info_name == "worker" and grace is None:
        yield f"{name}: has no --grace, so its jobs are killed"


def _check(name: str, service: dict[str, Any]) -> Iterator[str]:
    """Check a health check that is a clerk command."""
    words = service.get("healthcheck", {}).get("test", [])[1:]
    if words[:1] == ["clerk"]:
        try:
            parsed(shlex.join(words))
        except click.ClickException as error:
            yield f"{name}: {shlex.join(words)}: {error.format_message()}"


def _environment(name: str, service: dict[str, Any], context: click.Context) -> Iterator[str]:
    of_options = {option.envvar for option in context.command.params if option.envvar}
    known = {setting.name for setting in config.SETTINGS} | of_options | OF_LIBPQ
    yield from (f"{name}: {key} is unknown" for key in service["environment"] if key not in known)
    try:
        settings = config.load(service["environment"], Path("/nowhere"))
    except ClerkError as error:
        yield f"{name}: {error}"
        return
    if settings.database_url is None:
        yield f"{name}: has no DATABASE_URL"
    for volume in service.get("volumes", []):
        if volume.split(":")[1] != str(settings.storage_dir):
            yield f"{name}: mounts {volume}, but stores in {settings.storage_dir}"
    if not is_loopback(context.params.get("host", "localhost")) and not service["environment"].get(
        "CLERK_DASHBOARD_TOKEN"
    ):
        yield f"{name}: is reachable from other machines without a token"


def parsed(line: str) -> click.Context:
    """Parse a command line with Click, without running it."""
    words = shlex.split(line)
    if not words or words[0] != "clerk":
        raise click.UsageError(f"{words[:1]} is not the command clerk")
    command: click.Command = cli
    # With the group's settings: Click caches the names of a command's help option.
    context = click.Context(cli, info_name="clerk", **cli.context_settings)
    rest = words[1:]
    while isinstance(command, click.Group):
        subcommand = command.get_command(context, rest[0]) if rest else None
        if subcommand is None:
            raise click.UsageError(f"no such command: {rest[:1]}")
        command, rest = subcommand, rest[1:]
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=command.name)
    return command.make_context(command.name, rest, parent=context)


def _queues(compose: dict[str, Any]) -> Iterator[str]:
    """Every queue is served, and no unknown queue."""
    served = [
        queue
        for service in compose["services"].values()
        if _is_clerk(service) and service["command"].startswith("clerk worker")
        for queues in re.findall(r"--queues[ =](\S+)", service["command"])
        for queue in queues.split(",")
    ]
    yield from (f"no service serves the queue {queue}" for queue in QUEUES if queue not in served)
    yield from (f"{queue} is not a queue" for queue in served if queue not in QUEUES)


def _secrets(text: str) -> Iterator[str]:
    for key, value in re.findall(r"^\s*(\w*(?:PASSWORD|TOKEN)\w*):\s*(.*)$", text, re.MULTILINE):
        if not re.fullmatch(r"\$\{\w+:\?[^}]+\}", value):
            yield f"{key} is not taken from the environment with an error message"
    database = load(text)["services"]["postgres"]["environment"]
    for name, service in load(text)["services"].items():
        if url := service["environment"].get("DATABASE_URL"):
            parts = urlsplit(url)
            actual = (parts.hostname, parts.username, parts.path[1:], service["environment"].get("PGPASSWORD"))
            expected = ("postgres", *(database.get(f"POSTGRES_{key}") for key in ("USER", "DB", "PASSWORD")))
            if actual != expected:
                yield f"{name}: DATABASE_URL or PGPASSWORD do not match the service postgres"


def _seconds(duration: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smh])", duration))
