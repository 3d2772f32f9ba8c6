"""The chart of deploy/helm, rendered and held to the schemas of Kubernetes; without a cluster."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import typer
import yaml

import dueledger
from dueledger.alerts.settings import AlertSettings
from dueledger.allocator import AllocatorSettings
from dueledger.cli.app import app
from dueledger.ledger.intake import EventIntakeSettings
from dueledger.ledger.kafka.envelope import (
    EVENT_TOPIC,
    INTAKE_GROUP,
    OUTCOME_TOPIC,
    REJECTED_TOPIC,
    REPAIR_TOPIC,
)
from dueledger.ledger.materialise import MaterialiserSettings
from dueledger.ledger.outbox import RelaySettings
from dueledger.ledger.runtime.kafka_settings import variable_of
from dueledger.ledger.runtime.service import CLOSE_SECONDS, DRAIN_SECONDS
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store.processes import ProcessRole
from dueledger.reconciler.settings import ReconcilerSettings
from dueledger.service import ServiceSettings
from dueledger.workers.direct import DirectSettings
from dueledger.workers.http import HttpSettings
from dueledger.workers.outcomes import OutcomeIntakeSettings

ROOT: Final = Path(dueledger.__file__).resolve().parents[1]
CHART: Final = ROOT / "deploy" / "helm"
BUILT: Final = ROOT / ".tools" / "helm"
HELM: Final = str(BUILT) if BUILT.exists() else shutil.which("helm")
pytestmark = pytest.mark.skipif(HELM is None, reason="there is no helm: `make helm` builds it")

[IMAGE_USER] = map(
    int, re.findall(r"^USER (\d+):", (ROOT / "deploy/Dockerfile").read_text("utf-8"), re.MULTILINE)
)
KUBERNETES: Final = ("1.28.0", "1.36.0")
OPERATORS: Final = {
    "postgresql.cnpg.io/v1",
    "kafka.strimzi.io/v1",
    "monitoring.coreos.com/v1",
}
"""Resources of operators, whose schemas no package has."""
SETTINGS: Final[Mapping[str, type[Settings]]] = {
    "alerter": AlertSettings,
    "allocator": AllocatorSettings,
    "direct_worker": DirectSettings,
    "intake": EventIntakeSettings,
    "materialiser": MaterialiserSettings,
    "outcome_intake": OutcomeIntakeSettings,
    "reconciler": ReconcilerSettings,
    "relay": RelaySettings,
    "service": ServiceSettings,
    "worker": HttpSettings,
}
BY_ADDRESS: Final[Mapping[str, Any]] = {
    "postgres": {"host": "pg.example", "administrator": {"secret": "administrator"}},
    "kafka": {
        "bootstrapServers": "broker:9092",
        "securityProtocol": "SASL_SSL",
        "saslMechanism": "SCRAM-SHA-512",
        "passwordSecret": "kafka-passwords",
        "authoritySecret": "kafka-authority",
    },
    "service": {
        "trustedProxies": ["10.244.0.0/16"],
        "ingress": {"enabled": True, "host": "due.example", "tlsSecret": "due-example"},
    },
    "settings": {"TOPIC_REPLICATION": 3},
}
BY_OPERATORS: Final[Mapping[str, Any]] = {
    "postgres": {"cluster": {"create": True}},
    "kafka": {"cluster": {"create": True}},
    "service": {"certificateSecret": "certificate"},
}
EVERY_PROCESS: Final = {
    "processes": {
        **{name: {"enabled": True} for name in ("work", "send", "direct", "relay")},
        "alert": {"enabled": True, "kafka": True, "settings": {"ALERT_TOPIC": "due-alerts"}},
    },
    "metrics": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
}

Resource = dict[str, Any]


def helm(*arguments: str, values: Mapping[str, Any]) -> "subprocess.CompletedProcess[str]":
    assert HELM is not None
    return subprocess.run(  # noqa: S603 - our own
        [HELM, *arguments, str(CHART), "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def rendered(name: str, kubernetes: str = KUBERNETES[1]) -> Sequence[Resource]:
    values = {"address": BY_ADDRESS, "operators": BY_OPERATORS}[name]
    ran = helm(
        *("template", "due", "--kube-version", kubernetes), values={**values, **EVERY_PROCESS}
    )
    assert ran.returncode == 0, ran.stderr
    return [each for each in yaml.safe_load_all(ran.stdout) if each is not None]


def of_kind(resources: Sequence[Resource], kind: str) -> dict[str, Resource]:
    return {each["metadata"]["name"]: each for each in resources if each["kind"] == kind}


def containers_of(resource: Resource) -> list[Resource]:
    pod = resource["spec"]["template"]["spec"]
    return [*pod.get("initContainers", ()), *pod["containers"]]


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", ["address", "operators"])
def test_every_resource_fits_the_schemas_of_kubernetes(name: str, kubernetes: str) -> None:
    resources = rendered(name, kubernetes)
    own = [each for each in resources if each["apiVersion"] not in OPERATORS]
    assert len(of_kind(own, "Deployment")) == 11
    for resource in own:
        kubernetes_validate.validate(resource, kubernetes, strict=True)
    theirs = [each["kind"] for each in resources if each["apiVersion"] in OPERATORS]
    servers = ["Cluster", "Kafka", "KafkaNodePool", *["KafkaTopic"] * 3, *["KafkaUser"] * 6]
    assert sorted(theirs) == [*(servers if name == "operators" else ()), "PodMonitor"]


def test_helm_lint_finds_nothing() -> None:
    ran = helm("lint", "--strict", values=BY_ADDRESS)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (("postgres", "host"), "postgres.host is empty"),
        (("postgres", "administrator"), "postgres.administrator.secret is empty"),
        (("kafka", "bootstrapServers"), "kafka.bootstrapServers is empty"),
        (("kafka", "passwordSecret"), "kafka.passwordSecret is empty"),
        (("service", "trustedProxies"), "serve refuses plain text"),
    ],
)
def test_a_value_that_is_missing_is_named(path: tuple[str, str], named: str) -> None:
    section, name = path
    left = {key: value for key, value in BY_ADDRESS[section].items() if key != name}
    ran = helm(
        *("template", "due", "--kube-version", KUBERNETES[1]), values={**BY_ADDRESS, section: left}
    )
    assert ran.returncode != 0
    assert named in ran.stderr


@pytest.mark.parametrize("name", ["address", "operators"])
def test_no_container_may_be_root_or_write_beside_its_own_folders(name: str) -> None:
    resources = rendered(name)
    for resource in (
        *of_kind(resources, "Deployment").values(),
        *of_kind(resources, "Job").values(),
    ):
        pod = resource["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == IMAGE_USER
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in containers_of(resource):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("name", ["address", "operators"])
def test_passwords_are_named_by_reference_alone_and_each_process_has_its_own_login(
    name: str,
) -> None:
    logins: dict[str, set[str]] = {}
    for key, resource in of_kind(rendered(name), "Deployment").items():
        [container] = containers_of(resource)
        variables = {each["name"]: each for each in container["env"]}
        assert "@" not in variables["DUELEDGER_DSN"]["value"]
        role = variables["PGUSER"]["value"].removeprefix("due_")
        secret = variables["PGPASSWORD"]["valueFrom"]["secretKeyRef"]
        assert secret == {"name": "dueledger-logins", "key": role}
        logins.setdefault(role, set()).add(key)
        for variable in variables.keys() - {"PGUSER", "PGPASSWORD"}:
            fields = SETTINGS[role].model_fields
            assert variable in {variable_of(field) for field in fields}
            assert "value" in variables[variable]
    assert logins.keys() == set(ProcessRole)
    [job] = of_kind(rendered(name), "Job").values()
    migrate, make_logins = containers_of(job)
    given = {each["name"] for each in make_logins["env"] if each["name"].startswith("DUELEDGER_")}
    assert given == {"DUELEDGER_DSN", *(f"DUELEDGER_{role.upper()}_PASSWORD" for role in logins)}
    assert migrate["args"] == ["migrate"]
    [file] = of_kind(rendered(name), "ConfigMap").values()
    assert file["data"]["logins.sql"].strip() == (CHART / "files/logins.sql").read_text().strip()


def test_each_process_is_a_command_probed_by_its_role_with_time_for_its_drain() -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("dueledger", ["version"])
    for resource in of_kind(rendered("address"), "Deployment").values():
        [container] = containers_of(resource)
        name, command, arguments = group.resolve_command(context, list(container["args"]))
        command.make_context(name, arguments, parent=context)  # exits where one is missing
        role = next(e["value"] for e in container["env"] if e["name"] == "PGUSER")[4:]
        ready, live = container["readinessProbe"], container["livenessProbe"]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert env["DUELEDGER_METRICS_PORT"] == str(ports["metrics"])
        if role in {"alerter", "service"}:
            assert container["startupProbe"]["httpGet"] == live["httpGet"]
        if role == "alerter":
            assert ready["httpGet"] == live["httpGet"] == {"path": "/metrics", "port": "metrics"}
        elif role == "service":
            assert ready["httpGet"]["path"] == "/health/ready"
            assert live["httpGet"]["path"] == "/health/live"
        else:
            assert ready["exec"]["command"] == ["dueledger", "health", role]
            assert live["exec"]["command"] == ["dueledger", "health", role, "--live"]
            stuck_seconds = SETTINGS["worker"].model_fields["worker_stuck_seconds"].default
            assert live["periodSeconds"] * live["failureThreshold"] >= stuck_seconds
        drains = {
            field.default
            for key, field in SETTINGS[role].model_fields.items()
            if key.endswith("_drain_seconds")
        } or {DRAIN_SECONDS}
        pod = resource["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= max(drains) + CLOSE_SECONDS + 1
        assert resource["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_monitor_selects_the_pods_of_every_process_and_the_port_of_their_metrics() -> None:
    resources = rendered("address")
    [monitor] = of_kind(resources, "PodMonitor").values()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [exists] = monitor["spec"]["selector"]["matchExpressions"]
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    for resource in of_kind(resources, "Deployment").values():
        [container] = containers_of(resource)
        labels = resource["spec"]["template"]["metadata"]["labels"]
        assert selected <= labels.items()
        assert exists["key"] in labels
        assert endpoint["port"] in {each["name"] for each in container["ports"]}
    [job] = of_kind(resources, "Job").values()
    assert exists["key"] not in job["spec"]["template"]["metadata"]["labels"]


def test_a_process_of_several_replicas_keeps_all_but_one_of_them() -> None:
    resources = rendered("address")
    budgets, deployments = (
        of_kind(resources, kind) for kind in ("PodDisruptionBudget", "Deployment")
    )
    assert budgets.keys() == deployments.keys() - {"due-dueledger-reconcile"}
    for name, budget in budgets.items():
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["selector"] == deployments[name]["spec"]["selector"]
        labels = deployments[name]["spec"]["template"]["metadata"]["labels"]
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_processes_find_the_servers_that_the_operators_make() -> None:
    resources = rendered("operators")
    [postgres], [kafka] = (of_kind(resources, kind).values() for kind in ("Cluster", "Kafka"))
    users = of_kind(resources, "KafkaUser")
    for resource in of_kind(resources, "Deployment").values():
        [container] = containers_of(resource)
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert f"//{postgres['metadata']['name']}-rw:5432/" in env["DUELEDGER_DSN"]
        if "DUELEDGER_BOOTSTRAP_SERVERS" not in env:
            continue
        servers = f"{kafka['metadata']['name']}-kafka-bootstrap:9093"
        assert env["DUELEDGER_BOOTSTRAP_SERVERS"] == servers
        assert env["DUELEDGER_KAFKA_SASL_USERNAME"] in users
        copies = int(env["DUELEDGER_TOPIC_REPLICATION"] or 0)
        assert copies > kafka["spec"]["kafka"]["config"]["min.insync.replicas"]
        volumes = {v["name"]: v for v in resource["spec"]["template"]["spec"]["volumes"]}
        assert volumes["kafka"]["secret"]["secretName"] == env["DUELEDGER_KAFKA_SASL_USERNAME"]
    topics = {topic["spec"]["topicName"] for topic in of_kind(resources, "KafkaTopic").values()}
    assert topics == {EVENT_TOPIC, REJECTED_TOPIC, REPAIR_TOPIC}
    rules = [rule for user in users.values() for rule in user["spec"]["authorization"]["acls"]]
    named = {rule["resource"]["name"] for rule in rules}
    worker_group = HttpSettings.model_fields["worker_group_id"].default
    assert {EVENT_TOPIC, OUTCOME_TOPIC, INTAKE_GROUP, worker_group, "due.", "due-http."} <= named


def test_the_ingress_leads_to_nothing_that_needs_no_key_but_what_is_public() -> None:
    [ingress] = of_kind(rendered("address"), "Ingress").values()
    [rule] = ingress["spec"]["rules"]
    paths = {each["path"]: each["pathType"] for each in rule["http"]["paths"]}
    assert paths.pop("/") == "Exact"  # leads to the console
    assert paths.keys() == {"/v1", "/console", "/problems", "/openapi.json"}
