"""What a service of the Compose file may do, reach and know: no more than its work needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets_tests.deploy.deployment import DEPLOY, USER, compose, ours, services

SERVICES = sorted(services())
MAY_MEET = {
    ("code", "daemon"),
    ("code", "postgres"),
    ("code", "spark-master"),
    ("code", "spark-worker"),
    ("code", "viewer"),
    ("code", "webserver"),
    ("daemon", "postgres"),
    ("postgres", "viewer"),
    ("postgres", "webserver"),
    ("spark-master", "spark-worker"),
    # On the networks of the code server and of Postgres, whose clients they are.
    ("daemon", "viewer"),
    ("daemon", "webserver"),
    ("viewer", "webserver"),
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_writes_no_file_of_its_own_gains_no_right_and_takes_no_more_than_its_part(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"pids_limit", "mem_limit"} <= service.keys()
    assert any(each.startswith("/tmp:") for each in service["tmpfs"])


def test_no_service_is_root_and_none_owns_the_code() -> None:
    written = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (.*)$", written, re.MULTILINE) == [f"{USER}:{USER}"]
    assert f"useradd --uid {USER}" in written
    (owned,) = re.findall(r"install --directory --owner sfcdc --group sfcdc --mode 0700 (.*)$", written, re.MULTILINE)
    assert owned.split() == ["/warehouse", "/scratch", '"$DAGSTER_HOME/storage"']
    assert "chown" not in written
    assert services()["postgres"]["user"] == "postgres"
    assert [name for name, service in ours().items() if "user" in service] == []


def networks_of(service: dict[str, Any]) -> set[str]:
    return set(service["networks"])


def test_services_meet_only_those_that_they_work_with() -> None:
    met = {
        pair
        for pair in combinations(SERVICES, 2)
        if networks_of(services()[pair[0]]) & networks_of(services()[pair[1]])
    }
    assert met == MAY_MEET


def test_out_of_the_machine_lead_the_code_servers_network_and_those_of_published_ports() -> None:
    outward = {name for name, network in compose()["networks"].items() if not (network or {}).get("internal")}
    assert {name: sorted(networks_of(each) & outward) for name, each in services().items()} == {
        **{name: [] for name in services()},
        "code": ["outside"],
        "webserver": ["operators"],
        "viewer": ["viewers"],
    }
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {"webserver": ["127.0.0.1:3000:3000"], "viewer": ["127.0.0.1:3001:3000"]}


def test_the_code_server_listens_where_its_clients_are_and_nowhere_else() -> None:
    """Whoever reaches it has it run code."""
    code = services()["code"]
    assert "--host sfcdc-code" in code["command"]
    assert code["networks"]["location"] == {"aliases": ["sfcdc-code"]}
    at = [name for name, service in services().items() if "location" in service["networks"]]
    assert sorted(at) == ["code", "daemon", "viewer", "webserver"]


def test_no_secret_stands_in_what_describes_a_container_and_each_file_is_mounted_where_it_is_looked_for() -> None:
    assert set(compose()["secrets"]) == {"postgres_password", "spark_secret"}
    for name, service in services().items():
        reported = service["environment"]
        assert [each for each in reported if re.search("PASSWORD|SECRET", each) and not each.endswith("_FILE")] == [], (
            name
        )
        named = {value for each, value in reported.items() if each.endswith("_FILE")}
        assert named == {f"/run/secrets/{each}" for each in service["secrets"]}, name


def test_images_of_others_are_named_in_one_place() -> None:
    lines = [each for each in (DEPLOY / "images.env").read_text().splitlines() if not each.startswith("#")]
    named = dict(line.split("=", 1) for line in lines)
    assert named.keys() == {"PYTHON_IMAGE", "POSTGRES_IMAGE"}
    for image in named.values():
        assert re.fullmatch(r"[a-z./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?", image)
    assert services()["postgres"]["image"] == "${POSTGRES_IMAGE:?is in deploy/images.env}"
    assert re.findall(r"^FROM (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE) == ["${PYTHON_IMAGE}"]
    assert {str(each["build"]["args"]) for each in ours().values()} == {
        "{'PYTHON_IMAGE': '${PYTHON_IMAGE:?is in deploy/images.env}'}"
    }


DOCKER = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
[ "$1" = pull ] && [ "$3" != postgres:broken ] && exit 0
[ "$1" = image ] && echo "registry/${5%%:*}@sha256:$(printf %064d "$NEWEST")"
"""


@pytest.fixture
def pinning(tmp_path: Path) -> Path:
    """A folder with the command and a `docker` that knows what each tag stands for."""
    shutil.copy(DEPLOY / "pin-images", tmp_path)
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    return tmp_path


def pinned(folder: Path, newest: int) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "NEWEST": str(newest)}
    return subprocess.run([folder / "pin-images"], env=environment, capture_output=True, text=True, check=False)


def test_images_are_pinned_by_digest_and_pinned_again_to_what_their_tags_stand_for_then(pinning: Path) -> None:
    lock = pinning / "images.env"
    lock.write_text("# why\nPYTHON_IMAGE=python:3.11\nPOSTGRES_IMAGE=postgres:17\n")
    for newest in (1, 22):
        assert pinned(pinning, newest).returncode == 0
        digest = f"sha256:{newest:064d}"
        assert lock.read_text() == (f"# why\nPYTHON_IMAGE=python:3.11@{digest}\nPOSTGRES_IMAGE=postgres:17@{digest}\n")
    assert "@" not in (pinning / "calls").read_text()


def test_a_registry_that_does_not_answer_leaves_the_pins_as_they_are(pinning: Path) -> None:
    before = "# why\nPYTHON_IMAGE=python:3.11\nPOSTGRES_IMAGE=postgres:broken\n"
    (pinning / "images.env").write_text(before)
    assert pinned(pinning, 1).returncode != 0
    assert (pinning / "images.env").read_text() == before
