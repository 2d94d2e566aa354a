"""Clients from npm, each with settings only. Their known faults:

* `salesforce-pubsub-api-client` trusts no authority but those in a file of its own, so it has to be asked not to check
  certificates; it takes the answer to a commit for a keepalive; its replay ids are numbers, which lose digits beyond
  2**53; and closing it ends no stream.
* `avro-js` 1.12.2, which it needs, does not name its dependency `underscore`.
* `jsforce` speaks version 50.0 of the API unless another is asked for; releases after 3.10.16 need Node.js 22.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.events.avro.event_schema import event_name
from sfcdc_assets.emulator.events.replay_id import replay_counter
from sfcdc_assets.emulator.org.profiles import profiles
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.peers.npm_packages import npm_packages
from sfcdc_assets_tests.peers.served_org import ServedOrg, served_org

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm_packages(Path(__file__).parent, tmp_path_factory.mktemp("npm"))


def answers(script: str, folder: Path, served: ServedOrg, **more: str) -> dict[str, Any]:
    """What the script says it read; `more` are settings of its own."""
    command = ["node", script]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**served.environment, **more},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_jsforce_logs_in_reads_and_writes(scripts: Path, tmp_path: Path) -> None:
    with served_org(tmp_path, {"User": 2, "Account": 2_100, "Contact": 5}) as served:
        org = served.org
        with org.transaction() as work:
            parent = work.create("Account", {"Name": "With children"})
            child = work.create("Contact", {"LastName": "c", "AccountId": parent})
        truth = [record["Id"] for record in org.records("Account")]
        objects = len(org.definitions)
        read = answers("jsforce_client.mjs", scripts, served)
        assert {read[way]["organizationId"] for way in ("login", "oauth")} == {org.organization_id}
        assert read["identity"]["user_id"] == org.users.integration
        assert read["refreshed"] == len(truth)
        assert read["rest"] == truth
        assert read["fields"] == [field.name for field in org.definitions["Account"].fields]
        assert read["objects"] > objects
        (with_children,) = read["children"]
        assert [each["Id"] for each in with_children["Contacts"]["records"]] == [child]

        created = read["created"]["id"]
        assert (read["upserted"]["id"], read["upserted"]["success"]) == (created, True)
        assert [each["success"] for each in read["many"]] == [True, False]
        assert [each.get("created") for each in read["manyUpserted"]] == [False, True]
        assert read["retrieved"]["Name"] == "u1"
        deleted = org.record("Account", read["deleted"]["id"])
        assert deleted is not None
        assert deleted["IsDeleted"]

        live = sorted(str(record["Id"]) for record in org.records("Account"))
        assert sorted(read["bulk1"]) == sorted(read["bulk2"]) == live
        assert [each["success"] for each in read["bulk1Loaded"]] == [True, False]
        last_names = {record["LastName"] for record in org.records("Contact")}
        assert {"b1", "b2"} <= last_names
        assert [len(read["bulk2Loaded"][kind]) for kind in ("good", "bad")] == [1, 1]
        assert read["selected"] == [
            event_name(each.entity) for each in org.channels.members() if each.channel == "Js__chn"
        ]
        assert {"DeveloperName", "FullName", "Metadata", "ChannelType"} <= set(read["channelFields"])
        for row in read["owners"]:
            owner = org.record("User", str((org.record("Account", row["Id"]) or {})["OwnerId"])) or {}
            known = {each.id: each.name for each in profiles(org.store.instance)}
            assert row["Owner"]["Name"] == owner["Name"]
            assert row["Owner"]["Profile"]["Name"] == known[str(owner["ProfileId"])]
        assert read["organization"]["IsSandbox"] is True
        assert read["limits"]["Remaining"] < read["limits"]["Max"]


def test_the_pubsub_client_subscribes_resumes_and_commits(scripts: Path, tmp_path: Path) -> None:
    with served_org(tmp_path, {"User": 1, "Account": 1}) as served:
        org = served.org
        account = str(next(org.records("Account"))["Id"])
        served.change_account(account, 6)
        org.managed_subscriptions.create(
            "Managed_Accounts", "Accounts", "/data/AccountChangeEvent", "EARLIEST", "EARLIEST", "RUN"
        )
        read = answers("pubsub_client.mjs", scripts, served)
        oracle = [
            (transaction.transaction_key, change.after["Phone"], change.changed_fields)
            for transaction in org.transactions()
            for change in transaction.changes
            if change.after is not None
        ]
        reported = [
            (
                event["payload"]["ChangeEventHeader"]["transactionKey"],
                event["payload"]["Phone"],
                tuple(event["payload"]["ChangeEventHeader"]["changedFields"]),
            )
            for event in read["all"]
        ]
        assert [each[:2] for each in reported] == [each[:2] for each in oracle[:4]]
        assert [set(each[2]) for each in reported] == [set(each[2]) - {"SystemModstamp"} for each in oracle[:4]]
        assert {event["payload"]["ChangeEventHeader"]["recordIds"][0] for event in read["all"]} == {account}
        assert [event["payload"]["Phone"] for event in read["later"]] == ["2", "3"]
        assert [event["payload"]["Phone"] for event in read["committed"]["events"]] == ["0", "1", "2"]
        kept = org.managed_subscriptions.find(name="Managed_Accounts")
        assert kept is not None
        assert kept.committed is not None
        assert replay_counter(kept.committed) == read["committed"]["events"][1]["replayId"]


def test_the_pubsub_client_publishes_one_event_and_a_batch_and_receives_them(scripts: Path, tmp_path: Path) -> None:
    with served_org(tmp_path, {"User": 1}) as served:
        read = answers("pubsub_publish.mjs", scripts, served, PUBLISHER=served.org.users.integration)
        oracle = served.server.publisher.published()
        assert [each.name for each in oracle] == ["Order_Event__e"] * 3
        results = [read["one"], *read["batch"]["results"]]
        assert [each["correlationKey"] for each in results] == [each.event_id for each in oracle]
        assert (oracle[0].event_id, oracle[2].event_id) == ("mine", "third")
        assert [each["replayId"] for each in results] == [replay_counter(each.replay_id) for each in oracle]
        assert [(each["id"], each["replayId"], each["payload"]) for each in read["received"]] == [
            (each.event_id, replay_counter(each.replay_id), each.values) for each in oracle
        ]
        assert [each.values["Order_Number__c"] for each in oracle if each.values] == ["1", "2", "3"]
