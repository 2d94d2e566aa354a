"""`tap-salesforce`, a Singer tap, in both of its modes: discovery and a sync of some streams, with a refresh token.

Its known faults: login.salesforce.com is built in; it pins `requests`, so it is installed apart; in mode BULK it reads
UTF-8 as Latin-1, because `requests` takes that for a text without a charset, and the Bulk API names none.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.peers.pip_client import pip_client
from sfcdc_assets_tests.peers.served_org import ServedOrg, served_org

pytestmark = pytest.mark.slow
REQUIREMENT = "tap-salesforce==2.8.1"
STREAMS = ("Account", "Campaign", "UserRole", "Organization")


def tap(served: ServedOrg, folder: Path, mode: str, *options: str) -> str:
    config = {
        "client_id": served.settings["SALESFORCE_CLIENT_ID"],
        "client_secret": served.settings["SALESFORCE_CLIENT_SECRET"],
        "refresh_token": served.settings["SALESFORCE_REFRESH_TOKEN"],
        "start_date": "2000-01-01T00:00:00Z",
        "api_type": mode,
        "select_fields_by_default": "true",
    }
    (folder / "config.json").write_text(json.dumps(config))
    command = [str(pip_client(REQUIREMENT) / "tap-salesforce"), "--config", str(folder / "config.json"), *options]
    done = subprocess.run(
        command, env=served.aliased_environment, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def records(messages: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in messages.splitlines():
        message = json.loads(line)
        if message["type"] == "RECORD":
            found[message["stream"]].append(message["record"])
    return found


def as_read(value: str, mode: str) -> str:
    """As it comes out of the tap."""
    return value if mode == "REST" else value.encode().decode("latin-1")


@pytest.mark.parametrize("mode", ["REST", "BULK"])
def test_it_discovers_and_reads_what_the_org_has(tmp_path: Path, mode: str) -> None:
    counts = {"User": 2, "Account": 40, "Campaign": 7, "UserRole": 3}
    with served_org(tmp_path / "org", counts, stock=True) as served:
        catalog = json.loads(tap(served, tmp_path, mode, "--discover"))
        discovered = {stream["stream"] for stream in catalog["streams"]}
        assert served.org.definitions.keys() <= discovered
        for stream in catalog["streams"]:
            for entry in stream["metadata"]:
                if not entry["breadcrumb"]:
                    entry["metadata"]["selected"] = stream["stream"] in STREAMS
        (tmp_path / "catalog.json").write_text(json.dumps(catalog))
        found = records(tap(served, tmp_path, mode, "--properties", str(tmp_path / "catalog.json")))
        assert found.keys() == set(STREAMS)
        for entity in ("Account", "Campaign", "UserRole"):
            truth = {record["Id"]: record for record in served.org.records(entity)}
            read = {record["Id"]: record for record in found[entity]}
            assert read.keys() == truth.keys()
            assert {each: record["Name"] for each, record in read.items()} == {
                each: as_read(record["Name"], mode) for each, record in truth.items()
            }
        assert [each["Id"] for each in found["Organization"]] == [served.org.organization_id]
        revenues = {record["Id"]: record["AnnualRevenue"] for record in served.org.records("Account")}
        assert {record["Id"]: record.get("AnnualRevenue") for record in found["Account"]} == revenues
