from __future__ import annotations

import json
import tomllib
from ipaddress import ip_network
from typing import Any

import jsonschema
import psycopg
import pytest
import yaml

from clerk.config import SETTINGS
from clerk.pipeline.engine import QUEUES
from tests.docker.compose import ISOLATED, ROOT
from tests.engine.helpers import start
from tests.helm.chart import (
    CHART,
    SECRET_SETTINGS,
    Manifest,
    command,
    load,
    of_kind,
    pods,
    problems,
    render,
    run_helm,
    secret_names,
    template,
)

INGRESS = {"enabled": True, "host": "clerk.example.org", "className": "nginx", "tlsSecret": "clerk-tls"}
EVERYTHING: Manifest = {
    "image": {"repository": "registry.example/clerk", "digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
    "settings": {"CLERK_HOST_INTERVAL": 2, "CLERK_ALLOW_LOOPBACK": False},
    "storage": {"storageClassName": "nfs"},
    "keda": {"enabled": True},
    "dashboard": {"allowActions": True, "ingress": INGRESS, "service": {"annotations": {"a": "b"}}},
    "serve": {"enabled": True, "allowSql": True, "ingress": {**INGRESS, "annotations": {"a": "b"}}},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {
        "enabled": True,
        "database": [{"ipBlock": {"cidr": "10.0.5.0/24"}}],
        "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.0.6.0/24"}}], "ports": [{"protocol": "TCP", "port": 443}]}],
        "ingressFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
    },
    "workers": {
        "delivery": {
            "queues": ["delivery"],
            "extraSecrets": ["clerk-smtp"],
            "settings": {"CLERK_SMTP_HOST": "mail.example.org"},
        },
        "ocr": {"queues": ["ocr"], "autoscaling": {"minReplicas": 0}, "nodeSelector": {"kubernetes.io/arch": "amd64"}},
        "ocr-spot": {
            "queues": ["ocr"],
            "processes": 4,
            "concurrency": 1,
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        },
    },
    "serviceAccountName": "clerk",
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "archives"},
    "priorityClassName": "low",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "clerk", "operator": "Exists"}],
}
OPTIONS: dict[str, Manifest] = {
    "defaults": {},
    "everything": EVERYTHING,
    "keda": {"keda": {"enabled": True}},
    "existing claim": {"storage": {"existingClaim": "archives"}},
    "without the rest": {
        "migrate": {"enabled": False},
        "dashboard": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
    },
    "network policy": {"networkPolicy": {"enabled": True}},
}


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    return {name: render(values) for name, values in OPTIONS.items()}


def test_lint() -> None:
    done = run_helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("option", OPTIONS)
def test_the_manifests_have_no_problem(rendered: dict[str, str], option: str) -> None:
    assert problems(rendered[option]) == []


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("runAsNonRoot: true", "runAsNonRoot: false", "the pod's security context"),
        ("type: RuntimeDefault", "type: Unconfined", "the pod's security context"),
        ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "the container's security context"),
        ("drop: [ALL]", "drop: [NET_RAW]", "the container's security context"),
        ("automountServiceAccountToken: false", "automountServiceAccountToken: true", "has a token"),
        ("shareProcessNamespace: true", "shareProcessNamespace: false", "nothing reaps"),
        ("mountPath: /tmp", "mountPath: /scratch", "is not writable"),
        ("fsGroup: 10001", "fsGroups: 10001", "fsGroups"),
        ("revisionHistoryLimit: 3", "revisionHistoryLimit: three", "is not of type"),
        ('"--check","--queues","ocr"', '"--chek","--queues","ocr"', "No such option"),
        ('"--check","--queues","ocr"', '"--check","--queues","fetch"', "checks another worker"),
        ('"--check","--queues","ocr"', '"--queues","ocr"', "checks another worker"),
        ('"clerk","db","up"', '"clerk","db","upwards"', "no such command"),
        ('"--grace","480"', '"--grace","600"', "while jobs may still run"),
        ('"--processes","1"', '"--log-format","json"', "has no number of processes"),
        ("failureThreshold: 15", "failureThreshold: 5", "while it still waits for the database"),
        ("failureThreshold: 90", "failureThreshold: 30", "while it still starts"),
        ("name: STORAGE_DIR", "name: STORE_DIR", "STORE_DIR is unknown"),
        ("name: CLERK_HOST_INTERVAL", "name: CLERK_SMTP_PASSWORD", "CLERK_SMTP_PASSWORD is in the environment"),
        ('value: "2"', 'value: "x"', "CLERK_HOST_INTERVAL"),
        ("name: clerk-owner", "name: clerk-worker", "clerk-migrate: has the secrets of ['worker']"),
        ("name: clerk-worker", "name: clerk-owner", "'owner']"),
        ("mountPath: /run/secrets/clerk", "mountPath: /run/secrets", "reads its secrets from"),
        ('value: "/var/lib/clerk/storage"', "value: /srv", "is not where the storage is mounted"),
        ('"--port","8010"', '"--port","8012"', "but its ports are"),
        ("claimName: clerk-storage", "claimName: clerk-data", "are used"),
        ("scaleTargetRef:\n    name: clerk-ocr", "scaleTargetRef:\n    name: clerk-ocrr", "is not a Deployment"),
        ('targetQueryValue: "5"', "targetQueryValue: 5", "5 is not of type 'string'"),
        ("cooldownPeriod: 300", "coolDownPeriod: 300", "coolDownPeriod"),
        ("path: /metrics", "paths: /metrics", "'paths' was unexpected"),
        ("targetPort: http\n  selector:", "targetPort: http\n  selector:\n    app.io/x: y", "selects the pods of []"),
        ("apiVersion: policy/v1", "apiVersion: policy/v9", "Couldn't find schema"),
    ],
)
def test_problems_are_found(rendered: dict[str, str], right: str, wrong: str, problem: str) -> None:
    text = rendered["everything"]
    assert right in text
    found = problems(text.replace(right, wrong, 1))
    assert any(problem in line for line in found), found


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"imgae": {}}, "imgae"),
        ({"image": {"repository": ""}}, "image.repository"),
        ({"image": {"digest": "latest"}}, "image.digest"),
        ({"settings": {"DATABASE_URL": "postgresql://a"}}, "settings"),
        ({"settings": {"CLERK_SMTP_PASSWORD": "x"}}, "settings"),
        ({"secrets": {"owner": "Not A Name"}}, "secrets.owner"),
        ({"storage": {"url": "https://bucket"}}, "storage.url"),
        ({"storage": {"size": "lots"}}, "storage.size"),
        ({"workers": {"ocr": {"queues": ["ocrr"]}}}, "workers.ocr.queues"),
        ({"workers": {"ocr": {"queues": []}}}, "workers.ocr.queues"),
        ({"workers": {"more": {"replicas": 2}}}, "queues is required"),
        ({"workers": {"dashboard": {"queues": ["ocr"]}}}, "dashboard"),
        ({"workers": {"ocr": {"queues": ["ocr"], "replica": 2}}}, "replica"),
        ({"workers": {"ocr": {"queues": ["ocr"], "processes": 0}}}, "processes"),
        ({"workers": {"ocr": {"queues": ["ocr"], "resources": {"limits": {"memory": "1 GB"}}}}}, "memory"),
        ({"workerDefaults": {"graceSeconds": "8m"}}, "graceSeconds"),
        ({"dashboard": {"ingress": {"enabled": True}}}, "host"),
        ({"keda": {"enabled": "yes"}}, "keda.enabled"),
        ({"networkPolicy": {"databasePorts": [70000]}}, "databasePorts"),
    ],
)
def test_wrong_values_are_refused(values: Manifest, problem: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert problem in done.stderr


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return loaded


def test_settings_that_are_accepted() -> None:
    """All that are not secret, and not those that the chart sets itself."""
    validator = jsonschema.Draft7Validator({**schema(), "properties": {"settings": {"$ref": "#/definitions/settings"}}})
    accepted = {setting.name for setting in SETTINGS if validator.is_valid({"settings": {setting.name: "x"}})}
    of_chart = {"CLERK_HOME", "STORAGE_DIR"}
    assert accepted == {setting.name for setting in SETTINGS} - SECRET_SETTINGS - of_chart


def served_queues(manifests: list[Manifest]) -> list[str]:
    contexts = [command(pod) for pod in pods(manifests).values()]
    workers = [context for context in contexts if context.info_name == "worker"]
    return [queue for context in workers for queue in context.params["queues"].split(",")]


def test_every_queue_is_served_by_one_deployment(rendered: dict[str, str]) -> None:
    assert sorted(served_queues(load(rendered["defaults"]))) == sorted(QUEUES)
    assert schema()["definitions"]["queue"]["enum"] == list(QUEUES)


def test_a_queue_that_nothing_serves_is_refused() -> None:
    values: Manifest = {"workers": {"ocr": {"queues": ["ocr"], "enabled": False}, "fetch": None}}
    done = template(values)
    assert done.returncode != 0
    assert "no group of workers serves the queues fetch, ocr: enable one, or add them to unservedQueues" in done.stderr
    assert problems(render({**values, "unservedQueues": ["ocr", "fetch"]})) == []
    done = template({"unservedQueues": ["ocr"]})
    assert "unservedQueues has the queue ocr, which the group ocr serves" in done.stderr


def test_the_migration_runs_before_everything_with_the_owners_rights(rendered: dict[str, str]) -> None:
    manifests = load(rendered["defaults"])
    (job,) = of_kind(manifests, "Job").values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade,pre-rollback"
    assert [name for name, pod in pods(manifests).items() if "clerk-owner" in secret_names(pod)] == ["clerk-migrate"]
    # Helm creates nothing else before the hook, so the Job may depend on nothing else of the chart.
    assert "persistentVolumeClaim" not in str(job)


def test_another_command_with_the_owners_rights() -> None:
    """As in docs/kubernetes.md, to revert migrations before a rollback."""
    text = render({"migrate": {"args": ["db", "down", "--to", "8", "--dry-run"]}})
    assert problems(text) == []
    context = command(pods(load(text))["clerk-migrate"])
    assert (context.info_name, context.params["to"], context.params["dry_run"]) == ("down", 8, True)


def test_uninstalling_keeps_the_archives(rendered: dict[str, str]) -> None:
    (claim,) = of_kind(load(rendered["defaults"]), "PersistentVolumeClaim").values()
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not of_kind(load(rendered["existing claim"]), "PersistentVolumeClaim")


def test_object_storage() -> None:
    """The URL is passed on. Credentials come from a Secret; the migration, which needs none, does not get them."""
    url = "s3://archives/clerk?endpoint=https://minio.example.org"
    manifests = load(render({"storage": {"url": url, "credentialsSecret": "clerk-s3"}}))
    assert not of_kind(manifests, "PersistentVolumeClaim")
    for name, pod in pods(manifests).items():
        (container,) = pod["spec"]["containers"]
        assert {"name": "STORAGE_DIR", "value": url} in container["env"]
        assert "storage" not in {mount["name"] for mount in container["volumeMounts"]}
        expected = None if name == "clerk-migrate" else [{"secretRef": {"name": "clerk-s3"}}]
        assert container.get("envFrom") == expected


def test_the_token_is_mounted_where_actions_are_allowed(rendered: dict[str, str]) -> None:
    """The worker's DATABASE_URL, and of the dashboard's Secret the token only: it has a DATABASE_URL too."""
    volumes = pods(load(rendered["everything"]))["clerk-dashboard"]["spec"]["volumes"]
    (secrets,) = (volume["projected"]["sources"] for volume in volumes if volume["name"] == "secrets")
    token = {"key": "CLERK_DASHBOARD_TOKEN", "path": "CLERK_DASHBOARD_TOKEN"}
    assert secrets == [{"secret": {"name": "clerk-worker"}}, {"secret": {"name": "clerk-dashboard", "items": [token]}}]


def test_actions_need_one_replica() -> None:
    done = template({"dashboard": {"allowActions": True, "replicas": 2}})
    assert "dashboard.allowActions needs dashboard.replicas: 1" in done.stderr


def test_workers_that_parse_documents_do_not_reach_the_internet(rendered: dict[str, str]) -> None:
    manifests = load(rendered["network policy"])
    selector = of_kind(manifests, "NetworkPolicy")["clerk-internet"]["spec"]["podSelector"]["matchLabels"]
    reached = {name for name, pod in pods(manifests).items() if selector.items() <= pod["metadata"]["labels"].items()}
    assert reached == {"clerk-fetch", "clerk-deploy", "clerk-delivery"}
    assert not reached & {f"clerk-{queue}" for queue in ISOLATED}
    everyone = of_kind(manifests, "NetworkPolicy")["clerk"]["spec"]
    assert all(
        everyone["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        for pod in pods(manifests).values()
    )
    internet = of_kind(manifests, "NetworkPolicy")["clerk-internet"]["spec"]["egress"][0]["to"]
    excluded = {peer["ipBlock"]["cidr"]: peer["ipBlock"]["except"] for peer in internet}
    assert excluded.keys() == {"0.0.0.0/0", "::/0"}
    for cidr, networks in excluded.items():
        assert networks
        assert all(ip_network(each).subnet_of(ip_network(cidr)) for each in networks)  # type: ignore[arg-type]
    assert {port["port"] for rule in everyone["egress"] for port in rule["ports"]} == {53, 5432}


def test_scaling_follows_the_backlog(rendered: dict[str, str], connection: psycopg.Connection) -> None:
    """The query of each ScaledObject, with the rights that KEDA has, counts waiting and running jobs of its queues."""
    scaled = of_kind(load(rendered["keda"]), "ScaledObject")
    assert scaled.keys() == {f"clerk-{group}" for group in ("fetch", "ocr", "compilation", "extraction")}
    connection.execute("insert into sites (subdomain, name) values ('town', 'Town')")
    start(connection)
    counts = {}
    connection.execute("set role clerk_dashboard")
    for name, each in scaled.items():
        row = connection.execute(each["spec"]["triggers"][0]["metadata"]["query"]).fetchone()
        assert row is not None
        counts[name] = row[0]
    connection.execute("reset role")
    assert counts == {"clerk-fetch": 1, "clerk-ocr": 0, "clerk-compilation": 0, "clerk-extraction": 0}


def test_a_long_release_name_is_cut() -> None:
    text = render(release="archives-of-public-meetings-of-the-state-of-illinois")
    assert problems(text) == []


def test_version_and_documentation() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["appVersion"] == project["version"]
    documentation = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert [name for name in values if f"`{name}" not in documentation] == []
    assert values.keys() | {"global"} == schema()["properties"].keys()
