"""The control resource of a served org, as another process uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from sfcdc_assets.emulator.faults.faults import DESCRIPTIONS, LASTING, SUDDEN, Fault
from sfcdc_assets.emulator.faults.rest_faults import DESCRIPTIONS as REST_DESCRIPTIONS
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.eventually import BOUND_SECONDS


class Control:
    """Requests to `/emulator` of a served org."""

    def __init__(self, org: EmulatedOrg, server: EmulatorServer) -> None:
        self.org = org
        self.server = server
        self.session = requests.Session()

    def send(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = self.session.request(
            method,
            f"{self.server.rest_url}/emulator{path}",
            timeout=BOUND_SECONDS,
            verify=str(self.server.ca_file),
            **options,
        )
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path: str, **options: Any) -> Any:
        return self.send("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.send("POST", path, json=body, **options)


@pytest.fixture(scope="module")
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=ManualClock(), seed=6)
    org.populate(20)
    yield org
    org.close()


@pytest.fixture(scope="module")
def served(org: EmulatedOrg, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as server:
        yield server


@pytest.fixture
def control(org: EmulatedOrg, served: EmulatorServer) -> Iterator[Control]:
    control = Control(org, served)
    yield control
    control.send("DELETE", "/faults")
    control.session.close()


def test_every_fault_is_described_and_can_be_armed(control: Control) -> None:
    listing = control.get("/faults")
    assert listing["faults"].keys() == set(Fault) == set(DESCRIPTIONS)
    assert listing["rest_faults"].keys() == set(RestFault) == set(REST_DESCRIPTIONS)
    waiting = [fault for fault in Fault if fault not in SUDDEN]
    for fault in waiting:
        assert control.post(f"/faults/{fault}?times=2") == {"armed": 1 if fault in LASTING else 2}
    control.post("/rest-faults/unavailable?times=3&path=/query&retry_after=9")
    armed = control.get("/faults")["armed"]
    assert [one["fault"] for one in armed] == [*waiting, "unavailable"]
    assert (armed[-1]["times"], armed[-1]["path"], armed[-1]["retry_after"]) == (3, "/query", 9)
    control.send("DELETE", "/faults")
    assert control.get("/faults")["armed"] == []


def test_options_of_faults_come_in_the_query_or_the_body(control: Control) -> None:
    control.post("/faults/duplicate?after=4")
    control.post("/faults/enriched", {"times": 2, "fields": "Name,Phone"})
    control.post("/faults/stream_pause?after=3&seconds=30")
    control.post("/faults/late_answer?seconds=40")
    control.post("/faults/cometd_refused", {"error": "403::Restricted channel"})
    control.post("/faults/call_refused?code=service.tenant.license")
    control.post("/faults/clock_skew?ahead=30&seconds=9")
    faults = control.server.faults
    assert faults.option(Fault.COMETD_REFUSED, "error", "") == "403::Restricted channel"
    assert faults.option(Fault.CALL_REFUSED, "code", "") == "service.tenant.license"
    assert [faults.option(Fault.CLOCK_SKEW, name, 0) for name in ("ahead", "seconds")] == [30, 9]
    assert faults.option(Fault.DUPLICATE, "after", 0) == 4
    assert [faults.option(Fault.STREAM_PAUSE, name, 0) for name in ("after", "seconds")] == [3, 30]
    assert faults.option(Fault.LATE_ANSWER, "seconds", 0) == 40
    assert (faults.armed(Fault.ENRICHED), faults.option(Fault.ENRICHED, "fields", "")) == (2, "Name,Phone")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/faults/nonsense", {}),
        ("/faults/duplicate", {"times": 0}),
        ("/faults/duplicate", {"after": "soon"}),
        ("/faults/call_refused", {"code": "service.nonsense"}),
        ("/faults/clock_skew", {"ahed": 3}),
        ("/rest-faults/slow", {"second": 3}),
        ("/faults/cometd_refused", {"error": "no"}),
        ("/rest-faults/refused", {"code": "NONSENSE"}),
        ("/rest-faults/nonsense", {}),
        ("/traffic", {}),
        ("/traffic", {"events": 1, "transactions": 1}),
        ("/traffic", {"events": 1, "holes": 2}),
        ("/traffic", {"events": 1, "mix": "some"}),
        ("/settings", {"nonsense": 1}),
        ("/settings", {"credentials": {}}),
        ("/settings", {"overflow_threshold": "many"}),
        ("/settings", {"overflow_threshold": True}),
        ("/settings", {"diff_convention": "context"}),
        ("/settings", {"most_rows_in_time": -1}),
        ("/settings", {"enriched_fields": {"Account": "Name"}}),
        ("/records/Account/clear-field", {"field": "Id"}),
        ("/records/Nonsense/hard-delete", {"ids": []}),
        ("/records/Account/hard-delete", {"ids": "all"}),
        ("/replay-ids/move", {"new_organization_id": "perhaps"}),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(control: Control, path: str, body: dict[str, Any]) -> None:
    assert control.post(path, body, status=400)["error"]


def test_traffic_runs_on_demand_and_answers_counts(control: Control) -> None:
    first = control.get("/events")["published"]
    answer = control.post("/traffic", {"events": 60, "seed": 5, "holes": 0.3})
    assert answer["events"] >= 60
    assert control.get("/events")["published"] == first + answer["events"]
    assert sum(answer["holes"].values()) > 3
    assert sum(answer["changes"].values()) >= answer["transactions"] > 0
    control.send("DELETE", "/faults")
    assert control.post("/traffic", {"transactions": 5, "mix": "plain"})["transactions"] == 5


def test_the_truth_comes_in_pages_with_deleted_and_purged_records(control: Control) -> None:
    org = control.org
    control.post("/recycle-bin/empty")
    purged_before = set(control.get("/records/Lead")["purged"])
    ids = [str(record["Id"]) for record in org.records("Lead")]
    with org.transaction() as work:
        work.delete("Lead", ids[0])
        work.delete("Lead", ids[1])
        work.hard_delete("Lead", ids[1])
    seen: list[dict[str, Any]] = []
    page = control.get("/records/Lead?limit=7")
    assert set(page["purged"]) - purged_before == {ids[1]}
    for _ in range(10):
        seen += page["records"]
        if page["next_after"] is None:
            break
        page = control.get(f"/records/Lead?limit=7&after={page['next_after']}")
    assert seen == list(org.records("Lead", include_deleted=True))
    assert control.post("/recycle-bin/empty", {"entity": "Lead"}) == {"removed": 1}
    assert control.get("/records/Lead?limit=1")["purged"] == sorted({*purged_before, *ids[:2]})


def test_emptying_the_bin_raises_no_event_and_a_hard_delete_of_a_live_record_does(control: Control) -> None:
    org = control.org
    ids = [str(record["Id"]) for record in org.records("Case")][:2]
    with org.transaction() as work:
        work.delete("Case", ids[0])
    published = control.get("/events")["published"]
    control.post("/recycle-bin/empty")
    assert control.get("/events")["published"] == published
    control.post("/records/Case/hard-delete", {"ids": [ids[1]]})
    assert control.get("/events")["published"] == published + 1
    assert [org.record("Case", one) for one in ids] == [None, None]


def test_settings_change_while_the_org_runs(control: Control) -> None:
    before = control.get("/settings")
    assert "credentials" not in before
    changed = {
        "most_rows_in_time": 10,
        "rest_delay": 1500,
        "diff_convention": "posix",
        "enriched_fields": {"Account": ["Name"]},
    }
    assert control.post("/settings", changed) == before | changed
    assert control.org.rest_view.delay == 1500
    control.post("/settings", {name: before[name] for name in changed})
    assert control.get("/settings") == before


def test_a_field_is_cleared_for_all_records(control: Control) -> None:
    assert control.post("/records/Opportunity/clear-field", {"field": "NextStep"}) == {"record_ids": ["006*"]}


def test_the_allowance_left_is_in_the_limits(control: Control, served: EmulatorServer) -> None:
    def allowance() -> dict[str, int]:
        headers = {"Authorization": f"Bearer {served.sessions.issue(control.org.users.integration)}"}
        url = served.rest_url + "/services/data/v65.0/limits"
        answer = requests.get(url, headers=headers, verify=str(served.ca_file), timeout=BOUND_SECONDS)
        return answer.json()["DailyDeliveredPlatformEvents"]

    assert allowance() == {"Max": 50_000, "Remaining": 50_000}
    control.post("/settings", {"daily_event_deliveries": 10})
    assert allowance() == {"Max": 10, "Remaining": 10}
    control.post("/settings", {"daily_event_deliveries": 50_000})


def test_replay_ids_expire_and_a_refresh_makes_all_tokens_worthless(control: Control, served: EmulatorServer) -> None:
    token = served.sessions.issue("005000000000001AAA")
    first = control.get("/events")["latest_replay_id"]
    assert control.post("/replay-ids/expire")["latest_replay_id"] > first
    organization = control.get("/state")["organization_id"]
    moved = control.post("/replay-ids/move")
    assert (moved["organization_id"], moved["latest_replay_id"] < first) == (organization, True)
    assert served.sessions.user_of(token)
    assert control.post("/replay-ids/move", {"new_organization_id": True})["organization_id"] != organization
    assert served.sessions.user_of(token) is None


def test_the_body_of_a_control_request_is_a_json_object(served: EmulatorServer, tmp_path: Path) -> None:
    for body in ("nonsense", "[]"):
        answer = requests.post(
            served.rest_url + "/emulator/traffic", data=body, verify=str(served.ca_file), timeout=BOUND_SECONDS
        )
        assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_values_are_renamed_fields_encrypted_and_activities_archived(control: Control) -> None:
    with control.org.transaction() as work:
        work.create("Account", {"Name": "Acme", "Rating": "Hot"})
        task = work.create("Task", {"Subject": "Call"})
    hot = sum(each["Rating"] == "Hot" for each in control.org.records("Account"))
    field = "/objects/Account/fields/Rating"
    assert control.post(f"{field}/rename-value", {"from": "Hot", "to": "Very hot"}) == {"records": hot}
    assert control.post("/objects/Account/fields/Site/encrypt") == {}
    assert control.org.definitions["Account"].fields_by_name["Site"].encrypted
    assert control.post("/encryption-keys/rotate")["rotated_at"] is not None
    assert control.post("/encryption-keys/destroy")["rotated_at"] is not None
    assert control.org.definitions["Account"].fields_by_name["Site"].readable_from
    assert control.post("/encryption-keys/restore")["rotated_at"] is not None
    assert control.post("/encryption-keys/encrypt-again") == {"rotated_at": None}
    assert control.post("/records/Task/archive", {"ids": [task]}) == {"archived": 1}
    assert (control.org.record("Task", task) or {})["IsArchived"]


def test_scenarios_are_listed_and_played(control: Control) -> None:
    listed = control.get("/scenarios")["scenarios"]
    assert listed["create"].keys() == {"title", "happens", "received"}
    played = control.post("/scenarios/merge")
    assert played.keys() == {"title", "received", "steps"}
    last = played["steps"][-1]
    assert last["step"] == "merge loser, other into winner"
    kinds = sorted(each["change_type"] for each in last["transactions"][0]["changes"])
    assert kinds == ["DELETE", "DELETE", "UPDATE", "UPDATE"]
    assert [(each["channel"], each["entity"]) for each in last["events"]] == [
        ("ChangeEvents", "Account"), ("ChangeEvents", "Contact"), ("ChangeEvents", "Account"),
    ]  # fmt: skip
    assert "There is no scenario merges" in control.post("/scenarios/merges", status=400)["error"]


def test_a_picklist_is_converted(control: Control) -> None:
    rated = sum(record["Rating"] is not None for record in control.org.records("Lead"))
    assert control.post("/records/Lead/convert-field", {"field": "Rating"}) == {"records": rated}


def test_fields_and_objects_are_changed_from_another_process(control: Control) -> None:
    added = control.post("/objects/Lead/fields", {"name": "Tier__c", "type": "picklist", "picklist": ["A", "B"],
                                                  "sample": True})  # fmt: skip
    assert added["field_id"].startswith("00N")
    assert {record["Tier__c"] for record in control.org.records("Lead")} == {"A", "B", None}
    control.post("/objects/Lead/fields/Tier__c/rename", {"to": "Level__c"})
    assert control.post("/objects/Lead/fields/Level__c/retype", {"type": "multipicklist"})["notice"] == "gaps"
    assert control.post("/objects/Lead/fields/Level__c/retype", {"type": "date"})["notice"] == "wildcard"
    assert control.post("/objects/Lead/fields/Level__c/hide")["hidden"] == ["Level__c"]
    assert control.post("/objects/Lead/fields/Level__c/show")["hidden"] == []
    control.send("DELETE", "/objects/Lead/fields/Level__c")
    assert "Level__c" not in control.org.definitions["Lead"].fields_by_name
    fields = [{"Name": {"type": "string"}}]
    parcel = {"name": "Parcel__c", "label": "Parcel", "key_prefix": "a0p", "fields": fields, "records": 3}
    assert "Parcel__c" in control.post("/objects", parcel)["selected_entities"]
    assert control.org.count("Parcel__c") == 3
    for path, body in (
        ("/objects", parcel),
        ("/objects", {"name": "X__c"}),
        ("/objects/Lead/fields", {"name": "X__c", "type": "nonsense"}),
        ("/objects/Lead/fields", {"name": "X__c", "type": "string", "values": 3}),
        ("/objects/Lead/fields/Nonsense/retype", {"type": "string"}),
    ):
        control.send("POST", path, status=400, json=body)


def test_settings_of_a_real_org_that_are_for_ever_are_made_from_another_process(tmp_path: Path) -> None:
    org = EmulatedOrg(clock=ManualClock())
    with EmulatorServer(org, directory=tmp_path) as server:
        control = Control(org, server)
        control.post("/person-accounts")
        control.post("/user-preferences")
        control.post("/state-and-country-codes")
    assert "IsPersonAccount" in org.definitions["Account"].fields_by_name
    assert "EmailPreferencesAutoBcc" in org.definitions["User"].fields_by_name
    org.close()


def test_view_all_is_withdrawn_and_given_back(control: Control) -> None:
    assert control.get("/view-all")["all_data"]
    withdrawn = control.post("/view-all/withdraw", {"entity": "Account"})
    assert not withdrawn["all_data"]
    assert (withdrawn["objects"]["Account"], withdrawn["objects"]["Contact"]) == (False, True)
    assert not any(control.post("/view-all/withdraw")["objects"][name] for name in ("Account", "Contact"))
    assert control.post("/view-all/give-back")["all_data"]
    assert "Nobody" in control.send("POST", "/view-all/withdraw", 400, json={"entity": "Nobody"})["error"]
