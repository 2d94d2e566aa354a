"""Faults that are no single answer, as plain clients see them: a slow network, jobs that never end, stale marks, a
clock that is ahead, permissions for a while, an org that moves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import grpc
import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.held_body import held_body
from sfcdc_assets_tests.emulator.wire import ALL, HANDSHAKE, Wire, error_code, refused, wire
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually

EARLIEST, CUSTOM = pb.ReplayPreset.EARLIEST, pb.ReplayPreset.CUSTOM
XML_JOB = "http://www.force.com/2009/06/asyncapi/dataload"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with wire(tmp_path_factory.mktemp("org"), records=40) as opened:
        yield opened


@pytest.fixture
def org(served: Wire) -> Iterator[Wire]:
    yield served
    served.faults.disarm()
    served.log_in()


# -- a slow network


def test_a_call_is_answered_late_by_a_slow_network(org: Wire) -> None:
    org.faults.arm(Fault.SLOW_NETWORK, seconds="0.2")
    began = time.monotonic()
    answer = org.stub.GetTopic(pb.TopicRequest(topic_name=ALL), metadata=org.metadata, timeout=BOUND_SECONDS)
    assert answer.topic_name == ALL
    assert time.monotonic() - began >= 0.2


def test_a_response_of_a_stream_is_late_and_whole_on_a_slow_network(org: Wire) -> None:
    org.create(Phone="1")
    org.faults.arm(Fault.SLOW_NETWORK, seconds=10)
    stream = org.subscribe(pb.FetchRequest(topic_name=ALL, num_requested=100, replay_preset=EARLIEST))
    service = org.server.service
    eventually(lambda: service.next_due() == org.clock() + 10_000, service.next_due)
    delivered = org.server.meter.total
    org.clock.advance(10_000)
    events = [event for response in stream for event in response.events]
    assert len(events) == org.server.meter.total - delivered > 0


def test_a_client_that_gives_a_slow_call_up_leaves_nothing_behind(org: Wire) -> None:
    org.create()
    org.faults.arm(Fault.SLOW_NETWORK, 2, seconds=10**6)
    answer = org.stub.GetTopic.future(pb.TopicRequest(topic_name=ALL), metadata=org.metadata)
    stream = org.subscribe(pb.FetchRequest(topic_name=ALL, num_requested=1, replay_preset=EARLIEST))
    eventually(lambda: not org.faults.armed(Fault.SLOW_NETWORK), "both calls to be held back")
    answer.cancel()
    stream.cancel()  # type: ignore[attr-defined]
    eventually(lambda: not org.server.service.open_streams, "the org to end the stream")


def test_an_answer_of_cometd_may_stop_in_its_middle_for_a_while(org: Wire) -> None:
    org.faults.arm(Fault.COMETD_SLOW, seconds="30")
    with held_body() as held, org.cometd(HANDSHAKE, stream=True) as answer:  # its headers have come
        eventually(lambda: held.pauses == [30], "the pause after the first half")
        held.go_on()
        assert answer.json()[0]["successful"]


# -- jobs that never end


def test_a_bulk_query_may_never_end_and_can_be_aborted(org: Wire) -> None:
    org.faults.arm(Fault.BULK_JOB_STUCK)
    body = {"operation": "query", "query": "SELECT Id FROM Account"}
    stuck, other = (org.rest("POST", "/jobs/query", json=body).json()["id"] for _ in range(2))
    states = []
    for _ in range(5):
        org.clock.advance(600_000)
        states.append([org.rest("GET", f"/jobs/query/{job}").json()["state"] for job in (stuck, other)])
    assert states[-3:] == [["InProgress", "JobComplete"]] * 3
    assert org.rest("GET", f"/jobs/query/{stuck}/results").json()[0]["errorCode"] == "INVALIDJOBSTATE"
    assert org.rest("PATCH", f"/jobs/query/{stuck}", json={"state": "Aborted"}).json()["state"] == "Aborted"


def test_bulk_changes_may_never_end(org: Wire) -> None:
    org.faults.arm(Fault.BULK_JOB_STUCK)
    job = org.rest("POST", "/jobs/ingest", json={"operation": "insert", "object": "Account"}).json()["id"]
    org.rest("PUT", f"/jobs/ingest/{job}/batches", data="Name\nA\n", headers={"Content-Type": "text/csv"})
    org.rest("PATCH", f"/jobs/ingest/{job}", json={"state": "UploadComplete"})
    states = [org.rest("GET", f"/jobs/ingest/{job}").json()["state"] for _ in range(4)]
    assert states[-3:] == ["InProgress"] * 3


def test_a_batch_of_the_first_bulk_api_may_never_end(org: Wire) -> None:
    headers = {"X-SFDC-Session": org.token, "Content-Type": "application/json"}
    jobs = "/services/async/60.0/job"
    body = {"operation": "query", "object": "Account", "contentType": "JSON"}
    job = org.rest("POST", jobs, json=body, headers=headers).json()["id"]
    org.faults.arm(Fault.BULK_JOB_STUCK)
    batch = org.rest("POST", f"{jobs}/{job}/batch", data="SELECT Id FROM Account", headers=headers).json()["id"]
    look = f"{jobs}/{job}/batch/{batch}"
    assert [org.rest("GET", look, headers=headers).json()["state"] for _ in range(3)] == ["InProgress"] * 3
    org.rest("POST", f"{jobs}/{job}", json={"state": "Aborted"}, headers=headers)
    assert org.rest("GET", look, headers=headers).json()["state"] == "NotProcessed"


# -- times


def test_the_next_transactions_leave_a_stale_modstamp_and_those_after_them_do_not(org: Wire) -> None:
    org.faults.arm(Fault.STALE_MODSTAMP, 2, behind=90)
    org.clock.advance(1_000_000)
    ids = [org.create() for _ in range(3)]
    found = {
        row["Id"]: row["SystemModstamp"] == row["LastModifiedDate"]
        for row in org.query("SELECT Id, SystemModstamp, LastModifiedDate FROM Account").json()["records"]
    }
    assert [found[each] for each in ids] == [False, False, True]
    assert org.faults.struck(Fault.STALE_MODSTAMP) == 2


def test_rest_lags_behind_the_stream_for_as_long_as_was_asked(org: Wire) -> None:
    org.faults.arm(Fault.REST_LAG, behind=60, seconds=100)
    new = org.create()
    assert org.rest("GET", f"/sobjects/Account/{new}").status_code == 404
    org.clock.advance(61_000)
    assert org.rest("GET", f"/sobjects/Account/{new}").status_code == 200
    other = org.create()
    assert org.rest("GET", f"/sobjects/Account/{other}").status_code == 404
    org.clock.advance(40_000)
    assert org.faults.armed(Fault.REST_LAG) == 0
    assert org.rest("GET", f"/sobjects/Account/{other}").status_code == 200


def test_the_orgs_clock_is_ahead_until_the_fault_is_over(org: Wire) -> None:
    def ahead() -> float:
        return parsedate_to_datetime(org.rest("GET", "/limits").headers["Date"]).timestamp() - org.clock() / 1000

    org.faults.arm(Fault.CLOCK_SKEW, ahead=3_600, seconds=60)
    assert 3_599 <= ahead() <= 3_600
    org.create()
    (*_, last) = org.org.transactions()
    assert last.commit_timestamp - org.clock() // 1000 * 1000 == 3_600_000
    org.clock.advance(60_000)
    assert -1 <= ahead() <= 0


# -- permissions


def count(org: Wire, entity: str) -> int:
    return int(org.query(f"SELECT COUNT() FROM {entity}").json()["totalSize"])


def test_a_permission_is_withdrawn_and_given_back_by_itself(org: Wire) -> None:
    whole = count(org, "Account")
    org.faults.arm(Fault.PERMISSION_WITHDRAWN, seconds=60)
    assert 0 < count(org, "Account") < whole
    org.clock.advance(60_000)
    assert count(org, "Account") == whole
    org.faults.arm(Fault.PERMISSION_WITHDRAWN, entity="Contact")
    assert count(org, "Account") == whole
    assert not org.org.view_all.of("Contact")
    org.faults.disarm(Fault.PERMISSION_WITHDRAWN)
    assert org.org.view_all.of_all_data


# -- places and tokens that are lost


@pytest.mark.parametrize("fault", [Fault.INSTANCE_MOVE, Fault.REPLAY_IDS_EXPIRED])
def test_replay_ids_are_lost_at_once(org: Wire, fault: Fault) -> None:
    org.create()
    first = pb.FetchRequest(topic_name=ALL, num_requested=100, replay_preset=EARLIEST)
    *_, last = (event for response in org.subscribe(first) for event in response.events)
    before = org.query("SELECT InstanceName FROM Organization").json()["records"][0]["InstanceName"]
    org.faults.arm(fault)
    resumed = pb.FetchRequest(topic_name=ALL, num_requested=1, replay_preset=CUSTOM, replay_id=last.replay_id)
    assert error_code(refused(org.subscribe(resumed))) == "subscription.fetch.replayid.corrupted"
    org.create()
    (event,) = (event for response in org.subscribe(first) for event in response.events)
    now = org.query("SELECT InstanceName FROM Organization").json()["records"][0]["InstanceName"]
    assert (now != before, event.replay_id < last.replay_id) == (fault is Fault.INSTANCE_MOVE,) * 2


def test_all_tokens_expire_at_once_for_all_protocols(org: Wire) -> None:
    org.faults.arm(Fault.TOKENS_EXPIRED)
    assert org.query("SELECT Id FROM Account").json()[0]["errorCode"] == "INVALID_SESSION_ID"
    assert org.cometd(HANDSHAKE).json()[0]["ext"]["sfdc"]["failureReason"] == "401::Authentication invalid"
    with pytest.raises(grpc.RpcError) as refusal:
        org.stub.GetTopic(pb.TopicRequest(topic_name=ALL), metadata=org.metadata, timeout=BOUND_SECONDS)
    assert error_code(refusal.value) == "service.auth.error"
