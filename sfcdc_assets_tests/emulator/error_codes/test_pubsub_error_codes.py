"""Every `error-code` that the vendor's pages name is one that the emulated org sends, to a client of the real protocol.

Codes: https://developer.salesforce.com/docs/platform/pub-sub-api/guide/handling-errors.html and, for managed
subscriptions, https://developer.salesforce.com/docs/platform/pub-sub-api/guide/managed-sub.html
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.pubsub.refusal_codes import CODES as CODES_OF_FAULTS
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.wire import ALL, PREFIX, Wire, error_code, refused, wire
from sfcdc_assets_tests.eventually import BOUND_SECONDS

CUSTOM, EARLIEST = pb.ReplayPreset.CUSTOM, pb.ReplayPreset.EARLIEST
ACCOUNTS, ORDERS = "/data/AccountChangeEvent", "/event/Order_Event__e"

VENDORS = (
    "concurrent.client.limit.exceeded",
    "service.unavailable",
    "service.auth.error",
    "service.auth.headers.invalid",
    "service.auth.refresh.invalid",
    "service.protection.triggered",
    "service.protection.stream.limit.triggered",
    "service.tenant.license",
    "topic.not.found",
    "topic.meta.permission",
    "topic.api.unavailable",
    "topic.validation.empty",
    "schema.meta.permission",
    "schema.api.unavailable",
    "schema.validation.failed",
    "subscription.fetch.replayid.corrupted",
    "subscription.fetch.replayid.validation.failed",
    "subscription.fetch.replay.repeated",
    "subscription.limit.exceeded",
    "subscription.fetch.overflow",
    "subscription.fetch.requested.events.invalid",
    "subscription.fetch.topic.mismatch",
    "subscription.fetch.request.invalid",
    "subscription.topic.cannot.subscribe",
    "subscription.internal.error",
    "publish.stream.sweeper.timeout",
    "publish.auth.refresh.invalid",
    "publish.event.count.invalid",
    "publish.topic.mismatch",
    "publish.topic.validation.empty",
    "managed.subscription.already.active",
    "managed.subscription.config.stopped",
    "managed.subscription.config.deleted",
    "managed.subscription.developer.name.not.found",
    "managed.subscription.subscription.id.not.found",
    "managed.subscription.subscription.id.invalid",
    "managed.subscription.id.or.developer.name.empty",
    "managed.subscription.fetch.request.events.invalid",
    "managed.subscription.fetch.request.invalid",
    "managed.subscription.fetch.request.commit.request.restricted",
    "managed.subscription.fetch.request.auth.request.restricted",
)
LEFT_OUT: dict[str, str] = {}
"""Codes that the org does not send, each with the reason."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    timing = StreamTiming(idle_is_error=True)
    with wire(tmp_path_factory.mktemp("org"), timing=timing) as opened:
        yield opened


@pytest.fixture
def org(served: Wire) -> Iterator[Wire]:
    yield served
    served.reset()


# -- what brings each about


def fetch(number: int = 1, topic: str = ALL, **fields: Any) -> pb.FetchRequest:
    return pb.FetchRequest(topic_name=topic, num_requested=number, **fields)


def unary(call: Callable[..., Any], request: Any, metadata: list[tuple[str, str]]) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as raised:
        call(request, metadata=metadata, timeout=BOUND_SECONDS)
    return raised.value


def get_topic(org: Wire, name: str = ALL, metadata: list[tuple[str, str]] | None = None) -> grpc.RpcError:
    return unary(org.stub.GetTopic, pb.TopicRequest(topic_name=name), metadata or org.metadata)


def get_schema(org: Wire, schema_id: str) -> grpc.RpcError:
    return unary(org.stub.GetSchema, pb.SchemaRequest(schema_id=schema_id), org.metadata)


def publish(org: Wire, *requests: pb.PublishRequest) -> grpc.RpcError:
    return refused(org.stub.PublishStream(iter(requests), metadata=org.metadata, timeout=BOUND_SECONDS))


def open_requests(first: Any) -> Iterator[Any]:
    """A request side that stays open."""
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    requests.put(first)
    return iter(requests.get, None)


def event(org: Wire) -> pb.ProducerEvent:
    info = org.stub.GetTopic(pb.TopicRequest(topic_name=ORDERS), metadata=org.metadata, timeout=BOUND_SECONDS)
    return pb.ProducerEvent(id="1", schema_id=info.schema_id, payload=b"x")


def by_token(org: Wire) -> grpc.RpcError:
    org.token = "not a token"
    return get_topic(org)


def by_header(org: Wire) -> grpc.RpcError:
    return get_topic(org, metadata=org.metadata[:2])


def by_permission(org: Wire) -> grpc.RpcError:
    org.org.unreadable_objects.add("Account")
    return refused(org.subscribe(fetch(topic=ACCOUNTS)))


def by_schema_permission(org: Wire) -> grpc.RpcError:
    org.faults.arm(Fault.SCHEMA_NOT_PERMITTED)
    return get_schema(org, "x")


def by_schema_outage(org: Wire) -> grpc.RpcError:
    org.faults.arm(Fault.SCHEMA_REFUSED)
    return get_schema(org, "x")


def by_outage(org: Wire) -> grpc.RpcError:
    org.faults.arm(Fault.UNAVAILABLE)
    return get_topic(org)


def by_allowance(org: Wire) -> grpc.RpcError:
    org.org.settings = OrgSettings(daily_event_deliveries=0)
    return refused(org.subscribe(fetch()))


def by_silence_of_the_client(org: Wire) -> grpc.RpcError:
    """An open stream on which nothing is requested any more; `StreamTiming.idle_is_error`."""
    org.create()
    stream = org.stub.Subscribe(
        open_requests(fetch(replay_preset=EARLIEST)), metadata=org.metadata, timeout=BOUND_SECONDS
    )
    next(stream)
    org.clock.advance(60_000)
    return refused(stream)


def by_silence_of_the_publisher(org: Wire) -> grpc.RpcError:
    first = pb.PublishRequest(topic_name=ORDERS, events=[event(org)])
    stream = org.stub.PublishStream(open_requests(first), metadata=org.metadata, timeout=BOUND_SECONDS)
    next(stream)
    org.clock.advance(70_000)
    return refused(stream)


def managed(org: Wire, *requests: pb.ManagedFetchRequest) -> Any:
    return org.stub.ManagedSubscribe(iter(requests), metadata=org.metadata, timeout=BOUND_SECONDS)


def subscription(org: Wire, name: str, state: str = "RUN") -> str:
    metadata = {
        "label": name,
        "topicName": ACCOUNTS,
        "defaultReplay": "EARLIEST",
        "errorRecoveryReplay": "LATEST",
        "state": state,
    }
    body = {"FullName": name, "Metadata": metadata}
    return str(org.rest("POST", "/tooling/sobjects/ManagedEventSubscription", json=body).json()["id"])


def managed_by(**fields: Any) -> Callable[[Wire], grpc.RpcError]:
    def bring_about(org: Wire) -> grpc.RpcError:
        return refused(managed(org, pb.ManagedFetchRequest(**{"num_requested": 1, **fields})))

    return bring_about


def by_a_second_stream(org: Wire) -> grpc.RpcError:
    subscription(org, "Twice")
    org.create()
    first = pb.ManagedFetchRequest(developer_name="Twice", num_requested=1)
    stream = org.stub.ManagedSubscribe(open_requests(first), metadata=org.metadata, timeout=BOUND_SECONDS)
    next(stream)
    refusal = refused(managed(org, first))
    stream.cancel()
    return refusal


def by_stopping(org: Wire) -> grpc.RpcError:
    subscription(org, "Stopped", state="STOP")
    return managed_by(developer_name="Stopped")(org)


def by_deleting(org: Wire) -> grpc.RpcError:
    made = subscription(org, "Deleted")
    org.create()
    first = pb.ManagedFetchRequest(developer_name="Deleted", num_requested=100)
    stream = org.stub.ManagedSubscribe(open_requests(first), metadata=org.metadata, timeout=BOUND_SECONDS)
    next(stream)
    assert org.rest("DELETE", f"/tooling/sobjects/ManagedEventSubscription/{made}").status_code == 204
    org.create()
    return refused(stream)


def by_another_name(org: Wire) -> grpc.RpcError:
    subscription(org, "One")
    first = pb.ManagedFetchRequest(developer_name="One", num_requested=1)
    return refused(managed(org, first, pb.ManagedFetchRequest(developer_name="Other", num_requested=1)))


BROUGHT_ABOUT: dict[str, Callable[[Wire], grpc.RpcError]] = {
    "service.unavailable": by_outage,
    "service.auth.error": by_token,
    "service.auth.headers.invalid": by_header,
    "topic.not.found": lambda org: get_topic(org, "/data/NothingChangeEvent"),
    "topic.validation.empty": lambda org: get_topic(org, " "),
    "schema.validation.failed": lambda org: get_schema(org, ""),
    "schema.meta.permission": by_schema_permission,
    "schema.api.unavailable": by_schema_outage,
    "subscription.fetch.replayid.corrupted": lambda org: refused(
        org.subscribe(fetch(replay_preset=CUSTOM, replay_id=b"\0" * 10))
    ),
    "subscription.fetch.replayid.validation.failed": lambda org: refused(org.subscribe(fetch(replay_preset=CUSTOM))),
    "subscription.limit.exceeded": by_allowance,
    "subscription.fetch.requested.events.invalid": lambda org: refused(org.subscribe(fetch(0))),
    "subscription.fetch.topic.mismatch": lambda org: refused(org.subscribe(fetch(), fetch(topic=ACCOUNTS))),
    "subscription.fetch.request.invalid": by_silence_of_the_client,
    "subscription.topic.cannot.subscribe": by_permission,
    "publish.stream.sweeper.timeout": by_silence_of_the_publisher,
    "publish.auth.refresh.invalid": lambda org: publish(
        org, pb.PublishRequest(topic_name=ORDERS, events=[event(org)], auth_refresh="x")
    ),
    "publish.event.count.invalid": lambda org: publish(org, pb.PublishRequest(topic_name=ORDERS)),
    "publish.topic.mismatch": lambda org: publish(
        org, pb.PublishRequest(topic_name=ORDERS, events=[event(org)]), pb.PublishRequest(topic_name=ACCOUNTS)
    ),
    "publish.topic.validation.empty": lambda org: publish(org, pb.PublishRequest(events=[event(org)])),
    "managed.subscription.already.active": by_a_second_stream,
    "managed.subscription.config.stopped": by_stopping,
    "managed.subscription.config.deleted": by_deleting,
    "managed.subscription.developer.name.not.found": managed_by(developer_name="Nobody"),
    "managed.subscription.subscription.id.not.found": managed_by(subscription_id="18x000000000001AAA"),
    "managed.subscription.subscription.id.invalid": managed_by(subscription_id="18x"),
    "managed.subscription.id.or.developer.name.empty": managed_by(),
    "managed.subscription.fetch.request.events.invalid": managed_by(developer_name="Any", num_requested=0),
    "managed.subscription.fetch.request.invalid": by_another_name,
    "managed.subscription.fetch.request.commit.request.restricted": managed_by(
        developer_name="Any", commit_replay_id_request=pb.CommitReplayRequest(replay_id=b"1")
    ),
    "managed.subscription.fetch.request.auth.request.restricted": managed_by(developer_name="Any", auth_refresh="x"),
}
"""Code -> a request, or an armed fault, that has the org send it."""


@pytest.mark.parametrize("code", BROUGHT_ABOUT)
def test_a_request_or_a_condition_brings_the_code_about(org: Wire, code: str) -> None:
    assert error_code(BROUGHT_ABOUT[code](org)) == code


@pytest.mark.parametrize("code", CODES_OF_FAULTS)
def test_a_fault_brings_the_code_about_at_the_start_of_a_call_and_on_an_open_stream(org: Wire, code: str) -> None:
    org.faults.arm(Fault.CALL_REFUSED, code=code)
    refusal = get_topic(org)
    assert (error_code(refusal), refusal.code()) == (code, CODES_OF_FAULTS[code].status)
    org.create()
    stream = org.stub.Subscribe(
        open_requests(fetch(100, replay_preset=EARLIEST)), metadata=org.metadata, timeout=BOUND_SECONDS
    )
    next(stream)
    org.faults.arm(Fault.STREAM_REFUSED, code=code)
    assert error_code(refused(stream)) == code


def test_every_code_of_the_vendor_is_sent_or_left_out_with_a_reason() -> None:
    sent = {*BROUGHT_ABOUT, *CODES_OF_FAULTS}
    assert set(VENDORS) - sent == set(LEFT_OUT)
    assert sent <= set(VENDORS)
    assert all(LEFT_OUT.values())


def test_a_refusal_names_its_call_and_has_its_id_in_text_and_trailers(org: Wire) -> None:
    refusal = by_header(org)
    trailers = dict(refusal.trailing_metadata())
    assert trailers["type"] == "GetTopic"
    assert str(refusal.details()).endswith(f" rpcId: {trailers['rpc-id']}")
    assert trailers["error-code"].startswith(PREFIX)
