"""Reads docker-compose.yml as Compose would, and says what is wrong with it. No Docker engine is needed."""

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
from clerk.cli.worker import QUEUES
from clerk.errors import ClerkError
from clerk.web.auth import is_loopback

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
SECRETS = {"POSTGRES_PASSWORD": "p@ss/w:rd?", "CLERK_DASHBOARD_TOKEN": "token"}
"""What a person must give: with characters that mean something in URLs."""
OF_LIBPQ = {"PGPASSWORD"}
OF_POSTGRES_IMAGE = {"POSTGRES_DB", "POSTGRES_INITDB_ARGS", "POSTGRES_PASSWORD", "POSTGRES_USER"}
"""As the image's documentation names them; every other variable it ignores."""

_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?:(?P<operator>:[-?])(?P<rest>[^}]*))?\}|(?P<bare>.?))")


class Missing(Exception):
    """A variable without which the file refuses to be used."""


def interpolated(value: Any, environment: Mapping[str, str]) -> Any:
    """With the variables filled in, by the rules of the Compose specification: $$, ${A}, ${A:-default}, ${A:?error}."""
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
    found = interpolated(yaml.safe_load(text), environment)
    assert isinstance(found, dict)
    return found


def variables(text: str) -> set[str]:
    return {match["name"] for match in _VARIABLE.finditer(text) if match["name"]}


def problems(text: str) -> list[str]:
    """All that is wrong, in words; the schema first, since the rest relies on it."""
    try:
        compose = load(text)
    except (Missing, yaml.YAMLError) as error:
        return [str(error)]
    return list(_against_schema(compose)) or [
        *_references(compose),
        *(found for name, service in compose["services"].items() for found in _service(name, service)),
        *_queues(compose),
        *_secrets(text),
    ]


def _against_schema(compose: dict[str, Any]) -> Iterator[str]:
    """The Compose specification's own schema, which check-jsonschema carries."""
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
                yield f"{name}: waits for {needed}, which is no service"
            elif how["condition"] == "service_healthy" and "healthcheck" not in target:
                yield f"{name}: waits until {needed} is healthy, and nothing checks that"
            elif how["condition"] == "service_completed_successfully" and target.get("restart") != "no":
                yield f"{name}: waits until {needed} has ended, and that is started again and again"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            mounted.add(source)
            if source not in volumes:
                yield f"{name}: mounts {source}, which is no volume"
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
        yield f"{name}: is not started again when it ends"
    if not one_shot and "healthcheck" not in service:
        yield f"{name}: nothing checks its health"
    for port in service.get("ports", []):
        if not is_loopback(port.rpartition(":")[0].rpartition(":")[0]):
            yield f"{name}: is open to other machines by default ({port})"
    if not _is_clerk(service):
        yield from (f"{name}: {key} means nothing" for key in service["environment"] if key not in OF_POSTGRES_IMAGE)
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
        yield f"{name}: is killed after {service['stop_grace_period']}, while it still waits for jobs"
    if context.info_name == "worker" and grace is None:
        yield f"{name}: waits for its jobs without end, and is killed then"


def _check(name: str, service: dict[str, Any]) -> Iterator[str]:
    """A health check that is a command of clerk's own."""
    words = service.get("healthcheck", {}).get("test", [])[1:]
    if words[:1] == ["clerk"]:
        try:
            parsed(shlex.join(words))
        except click.ClickException as error:
            yield f"{name}: {shlex.join(words)}: {error.format_message()}"


def _environment(name: str, service: dict[str, Any], context: click.Context) -> Iterator[str]:
    of_options = {option.envvar for option in context.command.params if option.envvar}
    known = {setting.name for setting in config.SETTINGS} | of_options | OF_LIBPQ
    yield from (f"{name}: {key} means nothing" for key in service["environment"] if key not in known)
    try:
        settings = config.load(service["environment"], Path("/nowhere"))
    except ClerkError as error:
        yield f"{name}: {error}"
        return
    if settings.database_url is None:
        yield f"{name}: has no DATABASE_URL"
    for volume in service.get("volumes", []):
        if volume.split(":")[1] != str(settings.storage_dir):
            yield f"{name}: mounts {volume}, and stores in {settings.storage_dir}"
    if not is_loopback(context.params.get("host", "localhost")) and not service["environment"].get(
        "CLERK_DASHBOARD_TOKEN"
    ):
        yield f"{name}: listens beyond its own machine without a token"


def parsed(line: str) -> click.Context:
    """The command line as Click understands it, without doing what it says."""
    words = shlex.split(line)
    if not words or words[0] != "clerk":
        raise click.UsageError(f"{words[:1]} is not the command clerk")
    command: click.Command = cli
    # With the group's own settings: Click keeps for good how a command's help option is spelled, and others show it.
    context = click.Context(cli, info_name="clerk", **cli.context_settings)
    rest = words[1:]
    while isinstance(command, click.Group):
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            raise click.UsageError(f"no such command: {rest[:1]}")
        command, rest = found, rest[1:]
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=command.name)
    return command.make_context(command.name, rest, parent=context)


def _queues(compose: dict[str, Any]) -> Iterator[str]:
    """Every queue is read by one service, and no other is."""
    read = [
        queue
        for service in compose["services"].values()
        if _is_clerk(service) and service["command"].startswith("clerk worker")
        for queues in re.findall(r"--queues[ =](\S+)", service["command"])
        for queue in queues.split(",")
    ]
    yield from (f"nobody reads the queue {queue}" for queue in QUEUES if queue not in read)
    yield from (f"{queue} is no queue" for queue in read if queue not in QUEUES)


def _secrets(text: str) -> Iterator[str]:
    for key, value in re.findall(r"^\s*(\w*(?:PASSWORD|TOKEN)\w*):\s*(.*)$", text, re.MULTILINE):
        if not re.fullmatch(r"\$\{\w+:\?[^}]+\}", value):
            yield f"{key} is not taken from the environment, with a word for who forgot it"
    database = load(text)["services"]["postgres"]["environment"]
    for name, service in load(text)["services"].items():
        if url := service["environment"].get("DATABASE_URL"):
            parts = urlsplit(url)
            asked = (parts.hostname, parts.username, parts.path[1:], service["environment"].get("PGPASSWORD"))
            given = ("postgres", *(database.get(f"POSTGRES_{key}") for key in ("USER", "DB", "PASSWORD")))
            if asked != given:
                yield f"{name}: DATABASE_URL or PGPASSWORD do not fit the service postgres"


def _seconds(duration: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smh])", duration))
