"""Parses docker-compose.yml like Compose and lists its problems. Needs no Docker engine."""

from __future__ import annotations

import functools
import json
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

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
OF_SYSTEMD = {"CREDENTIALS_DIRECTORY"}
OF_POSTGRES_IMAGE = {"POSTGRES_DB", "POSTGRES_INITDB_ARGS", "POSTGRES_PASSWORD_FILE", "POSTGRES_USER"}
"""Variables in the documentation of the image; it ignores others."""
MOUNTED_SECRETS = "/run/secrets"
ISOLATED = ("ocr", "compilation", "extraction", "coordinator")
"""Queues whose workers parse untrusted documents or need no network but the database."""

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


@functools.cache
def secrets() -> Mapping[str, str]:
    """The files that bin/docker-secrets creates, with a password that has characters that are special in URLs."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "worker").write_text("p@ss/w:rd?\n", encoding="utf-8")
        subprocess.run([ROOT / "bin" / "docker-secrets", folder], check=True, capture_output=True)
        return {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}


def mounted_secrets(service: dict[str, Any]) -> dict[str, str]:
    """Name in /run/secrets → name of the secret."""
    both = [{"source": each, "target": each} if isinstance(each, str) else each for each in service.get("secrets", [])]
    return {each["target"]: each["source"] for each in both}


def settings_of(service: dict[str, Any]) -> config.Settings:
    """The settings that clerk loads in this service."""
    environment = dict(service["environment"])
    with tempfile.TemporaryDirectory() as folder:
        for target, source in mounted_secrets(service).items():
            if source in secrets():
                (Path(folder) / target).write_text(secrets()[source], encoding="utf-8")
        if environment.get("CREDENTIALS_DIRECTORY") == MOUNTED_SECRETS:
            environment["CREDENTIALS_DIRECTORY"] = folder
        return config.load(environment, Path("/nowhere"))


def load(text: str, environment: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
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
        *_secrets(compose),
        *_networks(compose),
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
        if not _is_clerk(service) and not re.search("@sha256:[0-9a-f]{64}$", service["image"]):
            yield f"{name}: the image {service['image']} is not pinned by digest"
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
    if name != "postgres" and "mem_limit" not in service:
        yield f"{name}: has no memory limit"
    if not _is_clerk(service):
        for key in service.get("environment", {}):
            if key not in OF_POSTGRES_IMAGE:
                yield f"{name}: {key} is unknown"
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
    known = {setting.name for setting in config.SETTINGS} | of_options | OF_SYSTEMD
    yield from (f"{name}: {key} is unknown" for key in service["environment"] if key not in known)
    try:
        settings = settings_of(service)
    except ClerkError as error:
        yield f"{name}: {error}"
        return
    if settings.database_url is None:
        yield f"{name}: has no DATABASE_URL"
    is_dashboard = context.info_name == "dashboard"
    mode = ":ro" if is_dashboard else ""
    if context.info_name in ("worker", "dashboard") and service.get("volumes") != [
        f"storage:{settings.storage_dir}{mode}"
    ]:
        yield f"{name}: mounts {service.get('volumes')}, but its storage is storage:{settings.storage_dir}{mode}"
    if not is_loopback(context.params.get("host", "localhost")) and settings.dashboard_token is None:
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


def _secrets(compose: dict[str, Any]) -> Iterator[str]:
    """Secrets are files, each service has only its own, and only the migration has the owner's."""
    files = {name: secret["file"] for name, secret in compose["secrets"].items()}
    for name, file in files.items():
        if file != f"./secrets/{name}" or name not in secrets():
            yield f"the secret {name} is not a file that bin/docker-secrets creates"
    database = compose["services"]["postgres"]["environment"]
    for name, service in compose["services"].items():
        for key in service.get("environment", {}):
            if re.search("PASSWORD|TOKEN", key) and not key.endswith("_FILE"):
                yield f"{name}: {key} is in the environment, which child processes inherit"
        mounted = mounted_secrets(service)
        yield from (f"{name}: {secret} is not a secret" for secret in mounted.values() if secret not in files)
        if not _is_clerk(service) or not set(mounted.values()) <= files.keys():
            continue
        url = urlsplit(settings_of(service).database_url or "")
        role = {"migrate": "owner", "dashboard": "dashboard"}.get(name, "worker")
        user = database.get("POSTGRES_USER") if role == "owner" else f"clerk_{role}"
        expected = ("postgres", user, database.get("POSTGRES_DB"), secrets()[role].strip())
        if (url.hostname, url.username, url.path[1:], unquote(url.password or "")) != expected:
            yield f"{name}: DATABASE_URL is not that of the user {user}"


def _networks(compose: dict[str, Any]) -> Iterator[str]:
    internal = {name for name, network in compose["networks"].items() if (network or {}).get("internal")}
    for name, service in compose["services"].items():
        if not service.get("networks"):
            yield f"{name}: is in the default network, which reaches the internet"
        for network in service.get("networks", []):
            if network not in compose["networks"]:
                yield f"{name}: {network} is not a network"
            if network not in internal and name in (*ISOLATED, "postgres", "migrate", "roles"):
                yield f"{name}: can reach the internet"
        if not internal & set(service.get("networks", [])):
            yield f"{name}: cannot reach the database"


def _seconds(duration: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smh])", duration))
