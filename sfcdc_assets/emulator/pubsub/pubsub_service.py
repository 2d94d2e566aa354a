"""The Pub/Sub API of the emulated org: `eventbus.v1.PubSub` as docs/salesforce-streams.md says it behaves."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Protocol, TypeVar

import grpc

from sfcdc_assets.emulator.errors import OrgUnavailableError
from sfcdc_assets.emulator.events.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.platform_events.event_publishing import EventPublisher
from sfcdc_assets.emulator.events.topic import Topic, find_topic, readable
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.event_publication import Publication, PublishStream
from sfcdc_assets.emulator.pubsub.managed_stream import ManagedStream, chosen_subscription, first_request
from sfcdc_assets.emulator.pubsub.refusal_codes import CODES
from sfcdc_assets.emulator.pubsub.rpc_call import RpcCall, Sessions
from sfcdc_assets.emulator.pubsub.rpc_refusal import (
    CANNOT_PUBLISH,
    CANNOT_SUBSCRIBE,
    MANAGED,
    PUBLISH_TOPIC_EMPTY,
    SCHEMA_ID_BLANK,
    SCHEMA_NOT_FOUND,
    SCHEMA_NOT_PERMITTED,
    SCHEMA_UNAVAILABLE,
    TOPIC_EMPTY,
    TOPIC_NOT_FOUND,
    UNAVAILABLE,
    RpcRefusal,
)
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.emulator.pubsub.subscription import StreamsOfOrg, Subscription
from sfcdc_assets.emulator.serving.certificate import LOOPBACK_NAMES
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc

_REMEMBERED_STREAMS = 8
"""How many streams that have ended are still known: most clients come for a moment, and then come again."""
Request = TypeVar("Request", pb.FetchRequest, pb.ManagedFetchRequest, pb.PublishRequest)


class _Stream(Protocol):
    """A call that lasts, and whose requests come from a thread of its own."""

    def close(self) -> None:
        """Note that the client closed its side."""

    def end(self) -> None:
        """Note that the call is over."""


class PubSubService(pb_grpc.PubSubServicer):
    """Answers calls from any thread. `stop` ends every open stream, so that the server can be stopped at once."""

    def __init__(
        self,
        org: EmulatedOrg,
        bus: EventBus,
        *,
        sessions: Sessions,
        timing: StreamTiming | None = None,
        meter: DeliveryMeter | None = None,
        hosts: Collection[str] = LOOPBACK_NAMES,
    ) -> None:
        """`hosts`: names under which clients reach the org's REST side; another in `instanceurl` is refused."""
        self._org = org
        self._bus = bus
        self._sessions = sessions
        self._timing = timing or StreamTiming()
        self._hosts = frozenset(name.lower() for name in hosts)
        self.faults = bus.faults
        self.meter = meter or DeliveryMeter(org.clock)
        self.publisher = EventPublisher(org, bus)
        """What is published is the same by REST."""
        self._open: set[Subscription] = set()
        self._publishing: set[PublishStream] = set()
        self._ended: deque[Subscription] = deque(maxlen=_REMEMBERED_STREAMS)
        self._active: set[str] = set()
        self._open_lock = threading.Lock()
        self._sent_on_ended = 0
        self.faults.on_armed(bus.wake)

    @property
    def allowance_left(self) -> int:
        """Events that may still be delivered in the 24 hours that end now."""
        return self._org.settings.daily_event_deliveries - self.meter.in_last_24_hours()

    @property
    def _tenant_guid(self) -> str:
        return f"CORE/prod/{self._org.organization_id}"

    @property
    def open_streams(self) -> int:
        """Subscribe calls in progress."""
        with self._open_lock:
            return len(self._open)

    @property
    def streams(self) -> list[Subscription]:
        """Calls that were begun, the open ones first, and then the last ones that have ended."""
        with self._open_lock:
            known = [*sorted(self._open, key=lambda each: each.opened_at), *reversed(self._ended)]
        return [each for each in known if each.is_started]

    @property
    def subscribed_streams(self) -> int:
        """Subscribe calls whose first request has been accepted: from then on they miss no event."""
        with self._open_lock:
            return sum(subscription.is_started for subscription in self._open)

    @property
    def outstanding(self) -> int:
        """Events requested and not yet delivered, over all open streams."""
        with self._open_lock:
            return sum(subscription.pending for subscription in self._open)

    @property
    def unasked_streams(self) -> int:
        """Subscribe calls that were begun, are heard, and on which nothing is requested at the moment."""
        with self._open_lock:
            heard = [each for each in self._open if each.is_started and not each.is_silent]
            return sum(not each.pending for each in heard)

    @property
    def responses_sent(self) -> int:
        """Responses on the streams that are open."""
        with self._open_lock:
            return sum(subscription.responses_sent for subscription in self._open)

    @property
    def responses_ever_sent(self) -> int:
        """Responses on all streams, those that have ended included."""
        with self._open_lock:
            return self._sent_on_ended + sum(subscription.responses_sent for subscription in self._open)

    def next_due(self) -> int | None:
        """Return when the next thing happens on an open stream if nothing else does (epoch ms by the org's clock); None
        without a stream that was begun. A time that is past means that something is being done."""
        with self._open_lock:
            due = [subscription.next_due() for subscription in self._open if subscription.is_started]
        return min(due, default=None)

    def stop(self) -> None:
        """End every open stream with status OK."""
        with self._open_lock:
            streams: list[_Stream] = [*self._open, *self._publishing]
        for stream in streams:
            stream.end()

    def Subscribe(  # noqa: N802 - the name is the protocol's
        self, request_iterator: Iterator[pb.FetchRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.FetchResponse]:
        """Serve the events of a topic to a client that requests them."""
        call = RpcCall("Subscribe", context)
        try:
            self._begin(call)
        except RpcRefusal as refusal:
            call.end(refusal)
        subscription = self._subscription(call)
        if not context.add_callback(subscription.end):
            return
        with self._open_lock:
            self._open.add(subscription)
        arguments = (request_iterator, subscription, subscription.put)
        threading.Thread(target=_pump, args=arguments, daemon=True, name="subscribe").start()
        try:
            yield from subscription.responses()
        except RpcRefusal as refusal:
            call.end(refusal)
        except OrgUnavailableError:
            call.end(UNAVAILABLE())
        finally:
            self._forget(subscription)

    def GetTopic(self, request: pb.TopicRequest, context: grpc.ServicerContext) -> pb.TopicInfo:  # noqa: N802
        """Describe a topic, its newest schema and what the client may do with it."""
        call = RpcCall("GetTopic", context)
        try:
            self._begin(call)
            topic = self._topic(request.topic_name)
        except RpcRefusal as refusal:
            call.end(refusal)
        self._hold_back(context)
        return pb.TopicInfo(
            topic_name=topic.name,
            tenant_guid=self._tenant_guid,
            can_publish=topic.can_publish,
            can_subscribe=self._may_subscribe(topic),
            schema_id="" if topic.entity is None else self._bus.newest_schema_id(topic.entity),
            rpc_id=call.rpc_id,
        )

    def GetSchema(self, request: pb.SchemaRequest, context: grpc.ServicerContext) -> pb.SchemaInfo:  # noqa: N802
        """Return a schema by its id."""
        call = RpcCall("GetSchema", context)
        try:
            self._begin(call)
            if not request.schema_id.strip():
                raise SCHEMA_ID_BLANK()
            if self.faults.take(Fault.SCHEMA_REFUSED):
                raise SCHEMA_UNAVAILABLE()
            if self.faults.take(Fault.SCHEMA_NOT_PERMITTED):
                raise SCHEMA_NOT_PERMITTED(schema_id=request.schema_id, tenant_guid=self._tenant_guid)
            schema_json = self._bus.schema_json(request.schema_id)
            if schema_json is None:
                raise SCHEMA_NOT_FOUND(schema_id=request.schema_id, tenant_guid=self._tenant_guid)
        except RpcRefusal as refusal:
            call.end(refusal)
        self._hold_back(context)
        return pb.SchemaInfo(schema_json=schema_json, schema_id=request.schema_id, rpc_id=call.rpc_id)

    def Publish(self, request: pb.PublishRequest, context: grpc.ServicerContext) -> pb.PublishResponse:  # noqa: N802
        """Publish platform events, with a result for each."""
        call = RpcCall("Publish", context)
        try:
            topic, publication = self._publication(call, request)
            published = self._published(call, topic, publication.results(request))
        except RpcRefusal as refusal:
            call.end(refusal)
        self._hold_back(context)
        return published

    def PublishStream(  # noqa: N802
        self, request_iterator: Iterator[pb.PublishRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PublishResponse]:
        """Publish platform events as they come, with a result for each."""
        call = RpcCall("PublishStream", context)
        first = next(request_iterator, None)
        if first is None:
            return
        stream = None
        try:
            topic, publication = self._publication(call, first)
            stream = PublishStream(self._bus, publication, first, self._org.clock, self._timing.publish_idle)
            with self._open_lock:
                self._publishing.add(stream)
            if not context.add_callback(stream.end):
                return
            arguments = (request_iterator, stream, stream.put)
            threading.Thread(target=_pump, args=arguments, daemon=True, name="publish").start()
            for results in stream.results():
                self._hold_back(context)
                yield self._published(call, topic, results)
        except RpcRefusal as refusal:
            call.end(refusal)
        finally:
            if stream is not None:
                with self._open_lock:
                    self._publishing.discard(stream)

    def ManagedSubscribe(  # noqa: N802
        self, request_iterator: Iterator[pb.ManagedFetchRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.ManagedFetchResponse]:
        """Serve the events of a managed subscription, whose place the org keeps."""
        call = RpcCall("ManagedSubscribe", context)
        try:
            self._begin(call)
            first = next(request_iterator, None)
            if first is None:
                return
            chosen = chosen_subscription(self._org.managed_subscriptions, first)
        except RpcRefusal as refusal:
            call.end(refusal)
        subscription = self._subscription(call)
        stream = ManagedStream(self._bus, self._org.managed_subscriptions, chosen, subscription, self._org.clock)
        with self._open_lock:
            is_active = chosen.id in self._active
            self._active.add(chosen.id)
            self._open.add(subscription)
        try:
            if is_active:
                raise MANAGED["already.active"]()
            if not context.add_callback(subscription.end):
                return
            subscription.put(first_request(self._bus, chosen, first.num_requested))
            pump = threading.Thread(
                target=_pump, args=(request_iterator, subscription, stream.put), daemon=True, name="managed"
            )
            pump.start()
            yield from stream.responses()
        except RpcRefusal as refusal:
            call.end(refusal)
        except OrgUnavailableError:
            call.end(UNAVAILABLE())
        finally:
            self._forget(subscription)
            if not is_active:
                with self._open_lock:
                    self._active.discard(chosen.id)

    def _subscription(self, call: RpcCall) -> Subscription:
        streams = StreamsOfOrg(
            bus=self._bus,
            timing=self._timing,
            clock=self._org.clock,
            faults=self.faults,
            meter=self.meter,
            open_topic=self._subscribable,
            readable=partial(readable, self._org),
            allowance=lambda: self.allowance_left,
        )
        return Subscription(streams, call.rpc_id)

    def _forget(self, subscription: Subscription) -> None:
        with self._open_lock:
            self._open.discard(subscription)
            subscription.ended_at = self._org.clock()
            self._ended.append(subscription)
            self._sent_on_ended += subscription.responses_sent

    def _begin(self, call: RpcCall) -> str:
        """Begin a call, and return the user who calls. Raises RpcRefusal if the call may not be made, or the fault that
        is armed for it."""
        if self.faults.take(Fault.UNAVAILABLE):
            raise UNAVAILABLE()
        if self.faults.take(Fault.CALL_REFUSED):
            raise CODES[str(self.faults.option(Fault.CALL_REFUSED, "code", "service.protection.triggered"))]()
        return call.authenticate(self._sessions, self._org.organization_id, self._hosts)

    def _publication(self, call: RpcCall, first: pb.PublishRequest) -> tuple[Topic, Publication]:
        """Return where a call publishes to. Raises RpcRefusal."""
        user_id = self._begin(call)
        if not first.topic_name.strip():
            raise PUBLISH_TOPIC_EMPTY()
        topic = self._topic(first.topic_name)
        if not topic.can_publish or topic.entity is None:
            raise CANNOT_PUBLISH(topic=topic.name)
        return topic, Publication(self.publisher, self._org.platform_events.all[topic.entity], user_id)

    def _hold_back(self, context: grpc.ServicerContext) -> None:
        """Let an answer arrive late if the network is slow: by the machine's clock, since who waits for it cannot move
        the org's. A client that gives up, or a server that stops, ends it."""
        is_over = threading.Event()
        if self.faults.take(Fault.SLOW_NETWORK) and context.add_callback(is_over.set):
            is_over.wait(float(self.faults.option(Fault.SLOW_NETWORK, "seconds", 5)))

    def _published(self, call: RpcCall, topic: Topic, results: list[pb.PublishResult]) -> pb.PublishResponse:
        schema_id = self._bus.newest_schema_id(str(topic.entity))
        return pb.PublishResponse(results=results, schema_id=schema_id, rpc_id=call.rpc_id)

    def _topic(self, name: str) -> Topic:
        if not name.strip():
            raise TOPIC_EMPTY()
        topic = find_topic(self._org, name)
        if topic is None or not topic.is_high_volume:
            raise TOPIC_NOT_FOUND(topic=name, tenant_guid=self._tenant_guid)
        return topic

    def _subscribable(self, name: str) -> Topic:
        """Return a topic the user may subscribe to: one entity's is checked here, the channel of all filters at
        delivery."""
        topic = self._topic(name)
        if not self._may_subscribe(topic):
            raise CANNOT_SUBSCRIBE(topic=name, tenant_guid=self._tenant_guid)
        return topic

    def _may_subscribe(self, topic: Topic) -> bool:
        return topic.entity is None or bool(readable(self._org, topic))


def _pump(request_iterator: Iterator[Request], stream: _Stream, put: Callable[[Request], None]) -> None:
    """Hand requests to the stream as they arrive, until the client closes its side or the call is over.

    A client that closes its side right after its first request still gets the events it asked for.
    """
    try:
        for request in request_iterator:
            put(request)
    except grpc.RpcError:
        # The call was cancelled: nobody is there to get what is published from now on, nor pays for it.
        stream.end()
    else:
        stream.close()
