"""`airbyte-source-salesforce`: what Airbyte runs of it (spec, check, discover, read) in full and incremental syncs.

Its known faults: login.salesforce.com is built in; from the Bulk API it takes texts such as `NA` and `None` for null,
unless asked to keep them, and makes every end of a line in them a line feed; a `stream_slice_step` in months or years
stops an incremental sync with a TypeError; it picks REST for objects with an address, and then leaves fields out of its
records that are null.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.field_value import stored_value
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.peers.pip_client import pip_client
from sfcdc_assets_tests.peers.served_org import ServedOrg, served_org

pytestmark = pytest.mark.slow
REQUIREMENTS = ("airbyte-source-salesforce==2.10.3", "airbyte-cdk==7.39.1")
READ = ("Account", "Opportunity", "Campaign", "UserRole", "Organization")
"""By REST, as it has an address, by Bulk API 2.0, two of few fields, and one whose row is computed."""
COUNTS = {"UserRole": 3, "User": 2, "Account": 40, "Opportunity": 30, "Campaign": 4}

Records = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By stream and id."""


@dataclass(frozen=True)
class Connector:
    """The installed source, with a served org, a folder for its files, and the streams that it has discovered."""

    served: ServedOrg
    folder: Path
    program: Path

    def messages(self, command: str, **files: Any) -> list[dict[str, Any]]:
        arguments = [command]
        for name, document in files.items():
            path = self.folder / f"{name}.json"
            path.write_text(json.dumps(document))
            arguments += [f"--{name}", str(path)]
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.folder, env=self.served.aliased_environment,
            capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        # Not splitlines: texts have U+2028 in them.
        return [json.loads(line) for line in done.stdout.split("\n") if line]

    @property
    def config(self) -> dict[str, Any]:
        settings = self.served.settings
        return {
            "client_id": settings["SALESFORCE_CLIENT_ID"],
            "client_secret": settings["SALESFORCE_CLIENT_SECRET"],
            "refresh_token": settings["SALESFORCE_REFRESH_TOKEN"],
            "start_date": "2020-01-01T00:00:00Z",
            "stream_slice_step": "P9000D",  # one job a stream
            "preserve_na_values": True,
        }

    def read(self, streams: Collection[Mapping[str, Any]], mode: str, **more: Any) -> tuple[Records, list[Any]]:
        """The records, and the last state of each stream."""
        catalog = {
            "streams": [{"stream": each, "sync_mode": mode, "destination_sync_mode": "append"} for each in streams]
        }
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        states: dict[str, Any] = {}
        for message in self.messages("read", config=self.config, catalog=catalog, **more):
            if message["type"] == "RECORD":
                record = message["record"]
                assert record["data"]["Id"] not in found[record["stream"]], "each record once"
                found[record["stream"]][record["data"]["Id"]] = record["data"]
            elif message["type"] == "STATE":
                states[message["state"]["stream"]["stream_descriptor"]["name"]] = message["state"]
        return found, list(states.values())


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    program = pip_client(*REQUIREMENTS) / "source-salesforce"
    folder = tmp_path_factory.mktemp("airbyte")
    with served_org(folder / "org", COUNTS, stock=True) as served:
        yield Connector(served, folder, program)


@pytest.fixture(scope="module")
def catalog(connector: Connector) -> dict[str, dict[str, Any]]:
    (message,) = (each for each in connector.messages("discover", config=connector.config) if "catalog" in each)
    return {stream["name"]: stream for stream in message["catalog"]["streams"]}


def truth(org: EmulatedOrg, entity: str) -> dict[str, dict[str, Any]]:
    """The oracle's records, as this client reads them."""
    names = [field.name for field in org.definitions[entity].fields if not field.is_compound]
    by_rest = bool(org.definitions[entity].components)
    return {
        str(record["Id"]): {name: record[name] if by_rest else with_line_feeds(record[name]) for name in names}
        for record in org.records(entity, include_deleted=True)
    }


def with_line_feeds(value: StoredValue) -> StoredValue:
    return re.sub(r"\r\n?", "\n", value) if isinstance(value, str) else value


def as_stored(org: EmulatedOrg, entity: str, read: Mapping[str, Any]) -> dict[str, Any]:
    """A record that was read, in the form of the oracle's, without what is made of other fields."""
    fields = [field for field in org.definitions[entity].fields if not field.is_compound]
    return {field.name: stored_value(field, read.get(field.name)) for field in fields}


def test_it_can_log_in(connector: Connector) -> None:
    messages = connector.messages("check", config=connector.config)
    assert [each["connectionStatus"]["status"] for each in messages if "connectionStatus" in each] == ["SUCCEEDED"]


def test_it_discovers_every_object_with_its_fields(connector: Connector, catalog: dict[str, dict[str, Any]]) -> None:
    definitions = connector.served.org.definitions
    assert definitions.keys() | {"Organization", "Profile", "RecordType", "PermissionSet"} <= catalog.keys()
    for name, definition in definitions.items():
        stream = catalog[name]
        assert stream["json_schema"]["properties"].keys() == {field.name for field in definition.fields}
        assert stream["source_defined_primary_key"] == [["Id"]]
        assert stream["default_cursor_field"] == ["SystemModstamp"]


def test_a_full_refresh_reads_what_the_org_has(connector: Connector, catalog: dict[str, dict[str, Any]]) -> None:
    org = connector.served.org
    found, _ = connector.read([catalog[name] for name in READ], "full_refresh")
    assert found.keys() == set(READ)
    for entity in READ[:-1]:
        assert {each: as_stored(org, entity, row) for each, row in found[entity].items()} == truth(org, entity)
    assert found["Organization"][org.organization_id]["IsSandbox"] is True


def test_an_incremental_sync_reads_what_has_changed_and_what_was_deleted(
    connector: Connector, catalog: dict[str, dict[str, Any]]
) -> None:
    org = connector.served.org
    streams = [catalog["Account"], catalog["Opportunity"]]
    found, state = connector.read(streams, "incremental")
    assert {entity: rows.keys() for entity, rows in found.items()} == {
        entity: truth(org, entity).keys() for entity in ("Account", "Opportunity")
    }
    (account, *_), (gone, renamed, *_) = truth(org, "Account"), truth(org, "Opportunity")
    with org.transaction() as work:
        work.update("Account", account, {"AnnualRevenue": 17, "Phone": None})
        work.delete("Opportunity", gone)
        work.update("Opportunity", renamed, {"Name": "NA"})
        new = work.create("Account", {"Name": "New"})
    again, _ = connector.read(streams, "incremental", state=state)
    assert {account, new} <= again["Account"].keys()
    assert {gone, renamed} <= again["Opportunity"].keys()
    assert len(again["Account"]) < len(truth(org, "Account")), "not all of them"
    for entity, rows in again.items():
        expected = truth(org, entity)
        assert {each: as_stored(org, entity, row) for each, row in rows.items()} == {
            each: expected[each] for each in rows
        }
    assert again["Opportunity"][gone]["IsDeleted"] is True
