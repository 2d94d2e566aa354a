"""The Kubernetes form of the deployment: valid, the services of Compose, and no pod may more than its work needs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_options
from sfcdc_assets_tests.deploy.deployment import DEPLOY, USER, services, without_defaults
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.environment import without_settings

FOLDER = DEPLOY / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    each for name in KUSTOMIZATION["resources"] for each in yaml.safe_load_all((FOLDER / name).read_text())
]
SECRETS = {"sfcdc-org", "sfcdc-postgres", "sfcdc-spark"}
RELEASES = ("1.31.0", "1.34.0", "1.37.0")
"""Of Kubernetes, whose schemas the manifests are held against."""


def named(kind: str) -> dict[str, dict[str, Any]]:
    """Objects of a kind."""
    return {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    """What each workload's pods are, by role."""
    workloads = {**named("Deployment"), **named("StatefulSet")}
    return {name: each["spec"]["template"] for name, each in workloads.items()}


ROLES = sorted(pods())


def container(role: str) -> dict[str, Any]:
    (found,) = pods()[role]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(role: str) -> dict[str, str]:
    """The environment of a role's container; what depends on the pod is in angle brackets."""
    maps = [each["configMapRef"]["name"] for each in container(role).get("envFrom", ())]
    found = {name: value for each in maps for name, value in named("ConfigMap")[each]["data"].items()}
    own = {each["name"]: each.get("value", f"<{each['name']}>") for each in container(role).get("env", ())}
    return {**found, **own}


def policies(role: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The network policies that hold for a role's pods."""
    for name, policy in named("NetworkPolicy").items():
        if role in selected(policy["spec"]["podSelector"]):
            yield name, policy["spec"]


def selected(selector: Mapping[str, Any]) -> set[str]:
    """Roles that a selector of pods means."""
    by_label = selector.get("matchLabels", {}).get("sfcdc/role")
    by_expression = [value for each in selector.get("matchExpressions", ()) for value in each["values"]]
    return {by_label} if by_label else set(by_expression) or {*ROLES}


def open_ports(to: str) -> dict[str, set[str]]:
    """Role -> the ports of another role's pods that its own may reach by the policies of both."""
    found: dict[str, set[str]] = {}
    for _, policy in policies(to):
        for rule in policy.get("ingress", ()):
            for peer in rule["from"]:
                for role in selected(peer["podSelector"]):
                    found.setdefault(role, set()).update(ports_of(rule))
    return found


def ports_of(rule: Mapping[str, Any]) -> set[str]:
    return {"-".join(str(each[end]) for end in ("port", "endPort") if end in each) for each in rule.get("ports", ())}


@pytest.mark.parametrize("release", RELEASES)
def test_every_manifest_is_valid_and_has_no_field_that_kubernetes_does_not_know(release: str) -> None:
    assert len(OBJECTS) > 20
    for each in OBJECTS:
        kubernetes_validate.validate(each, release, strict=True)
    wrong = json.loads(json.dumps(named("Deployment")["code"]))
    wrong["spec"]["template"]["spec"]["containers"][0]["securityContexts"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, release, strict=True)


def test_the_kustomization_has_all_there_is() -> None:
    assert {*KUSTOMIZATION["resources"], "kustomization.yaml"} == {each.name for each in FOLDER.iterdir()}
    images = {each["name"] for each in KUSTOMIZATION["images"]}
    assert {container(role)["image"] for role in ROLES} == images == {"sfcdc", "postgres"}
    assert KUSTOMIZATION["namespace"] in named("Namespace")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_makes_the_same_objects_of_it() -> None:
    done = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=True)
    made = [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(done.stdout)]
    assert sorted(made) == sorted((each["kind"], each["metadata"]["name"]) for each in OBJECTS)


@pytest.mark.parametrize("role", ROLES)
def test_a_pod_is_no_root_gains_no_right_writes_to_its_volumes_alone_and_takes_no_more_than_its_part(role: str) -> None:
    spec, only = pods()[role]["spec"], container(role)
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False, "variables like SPARK_MASTER_PORT=tcp://... would come along"
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (
        security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == (999 if role == "postgres" else USER)
    )
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert "memory" in only["resources"]["limits"]
    assert only["resources"]["requests"].keys() == {"cpu", "memory"}
    mounted = {each["name"]: each["mountPath"] for each in only["volumeMounts"]}
    claims = named("StatefulSet")["postgres"]["spec"]["volumeClaimTemplates"] if role == "postgres" else []
    assert mounted.keys() == {each["name"] for each in spec["volumes"]} | {each["metadata"]["name"] for each in claims}
    assert "/tmp" in mounted.values()
    assert all("sizeLimit" in each["emptyDir"] for each in spec["volumes"] if "emptyDir" in each)
    assert pods()[role]["metadata"]["labels"] == {"sfcdc/role": role}


def test_the_cluster_refuses_a_pod_here_that_may_more() -> None:
    (namespace,) = named("Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_no_secret_is_in_a_manifest_and_each_file_is_mounted_where_it_is_looked_for() -> None:
    assert not named("Secret")
    used = dict[str, set[str]]()
    for role in ROLES:
        volumes = {each["name"]: each["secret"] for each in pods()[role]["spec"]["volumes"] if "secret" in each}
        at = [each["mountPath"] for each in container(role)["volumeMounts"] if each["name"] in volumes]
        used[role] = {each["secretName"] for each in volumes.values()}
        assert all(each["defaultMode"] == 0o440 for each in volumes.values())
        for name, value in variables(role).items():
            if name.endswith("_FILE"):
                assert any(value.startswith(f"{each}/") for each in at), (role, name)
            else:
                assert not re.search(r"PASSWORD|SECRET|TOKEN", name, re.IGNORECASE), (role, name)
    assert set().union(*used.values()) == SECRETS
    assert [role for role in ROLES if "sfcdc-org" in used[role]] == ["code"]
    assert [role for role in ROLES if "sfcdc-spark" in used[role]] == ["code", "spark-master", "spark-worker"]
    page = (ROOT / "docs" / "deployment.md").read_text()
    assert set(re.findall(r"create secret generic (\S+)", page)) == SECRETS


def test_the_services_do_what_those_of_compose_do() -> None:
    assert sorted(services()) == ROLES
    for role in set(ROLES) - {"postgres"}:
        theirs = shlex.split(services()[role]["command"])
        where = {"sfcdc-code": "0.0.0.0", "workspace.yaml": "/run/workspace/workspace.yaml"}
        wanted = [where.get(word, word) for word in theirs]
        args = container(role)["args"]
        if role == "spark-master":
            wanted[wanted.index("spark-master")] = "$(POD_IP)"
        if role == "spark-worker":
            at = args.index("--host")
            assert args[at : at + 2] == ["--host", "$(POD_IP)"]
            args = args[:at] + args[at + 2 :]
        assert args == wanted
    for role in ("spark-master", "spark-worker"):
        theirs = services()[role]["environment"]["SPARK_DAEMON_JAVA_OPTS"]
        assert variables(role)["SPARK_DAEMON_JAVA_OPTS"].split() == theirs.split()


def test_the_settings_are_settings_and_those_of_spark_are_composes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def options(environment: Mapping[str, str]) -> dict[str, str]:
        without_settings(monkeypatch)
        for name, value in environment.items():
            held = str(tmp_path / "secret") if name.endswith("_FILE") else without_defaults(value)
            monkeypatch.setenv(name, held)
        return spark_options(load_settings())

    (tmp_path / "secret").write_text("s3cret")
    ours, theirs = options(variables("code")), options(services()["code"]["environment"])
    apart = {"spark.driver.host", "spark.driver.port", "spark.driver.blockManager.port"}
    assert {name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)} == apart
    assert (ours["spark.driver.port"], ours["spark.driver.blockManager.port"]) == ("35000", "36000")


def test_pods_reach_those_that_they_work_with_and_nothing_else() -> None:
    everywhere = named("NetworkPolicy")["nothing-but-names"]["spec"]
    assert (everywhere["podSelector"], everywhere["policyTypes"]) == ({}, ["Ingress", "Egress"])
    assert "ingress" not in everywhere
    clients = {"webserver", "viewer", "daemon"}
    of_runs = {"35000-35099", "36000-36099"}
    workers = {"spark-master", "spark-worker"}
    assert open_ports("code") == {**{role: {"4000"} for role in clients}, **dict.fromkeys(workers, of_runs)}
    assert open_ports("postgres") == {role: {"5432"} for role in (*clients, "code")}
    assert open_ports("webserver") == {"login-of-operators": {"3000"}}
    assert open_ports("viewer") == {"login-of-viewers": {"3000"}}
    assert open_ports("daemon") == {}
    assert open_ports("spark-master").keys() == open_ports("spark-worker").keys() == {*workers, "code"}


def test_out_of_the_cluster_the_code_server_and_workers_get_alone_and_never_to_the_machines_own_metadata() -> None:
    outward = {}
    for role in ROLES:
        for _, policy in policies(role):
            for rule in policy.get("egress", ()):
                for block in (each["ipBlock"] for each in rule["to"] if "ipBlock" in each):
                    assert "169.254.0.0/16" in block["except"]
                    outward[role] = ports_of(rule)
    assert outward == {"code": {"443", "7443"}, "spark-master": {"443"}, "spark-worker": {"443"}}


def test_probes_ask_what_the_services_answer() -> None:
    (server,) = yaml.safe_load(named("ConfigMap")["dagster-workspace"]["data"]["workspace.yaml"])["load_from"]
    (port,) = named("Service")["sfcdc-code"]["spec"]["ports"]
    assert (server["grpc_server"]["host"], server["grpc_server"]["port"]) == ("sfcdc-code", port["port"])
    code = container("code")
    for probe in ("startupProbe", "livenessProbe"):
        assert code[probe]["grpc"] == {"port": 4000, "service": "DagsterApi"}
    _, *asked = services()["code"]["healthcheck"]["test"]
    assert code["readinessProbe"]["exec"]["command"] == [each for each in asked if each not in ("--host", "sfcdc-code")]
    for role in ("webserver", "viewer"):
        asked = container(role)["readinessProbe"]["httpGet"]
        assert asked["httpHeaders"] == [{"name": "Host", "value": "localhost"}], "the guard refuses the pod's address"
    for name, service in named("Service").items():
        role = service["spec"]["selector"]["sfcdc/role"]
        assert [each["port"] for each in service["spec"]["ports"]] == [
            each["containerPort"] for each in container(role)["ports"]
        ], name
