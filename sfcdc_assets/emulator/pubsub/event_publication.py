"""Publish and PublishStream: a request's events, one result each
(https://developer.salesforce.com/docs/platform/pub-sub-api/references/methods/publishstream-rpc.html)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sfcdc_assets.emulator.definitions.platform_event_definition import PlatformEventDefinition
from sfcdc_assets.emulator.errors import OrgUnavailableError, RecordError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.platform_events.event_publishing import EventPublisher, EventToPublish
from sfcdc_assets.emulator.org.clock import Clock
from sfcdc_assets.emulator.pubsub.request_stream import RequestStream
from sfcdc_assets.emulator.pubsub.rpc_refusal import (
    NO_EVENTS_TO_PUBLISH,
    PUBLISH_REFRESH_REFUSED,
    PUBLISH_REQUEST_TOO_LARGE,
    PUBLISH_STREAM_IDLE,
    PUBLISH_TOPIC_MISMATCH,
    UNAVAILABLE,
)
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""A larger request ends the call."""
MAX_EVENT_BYTES = 1024 * 1024
"""A larger event is not published; those beside it are."""
MAX_ID_LENGTH = 36
"""Characters of an id that the publisher gives."""


class Publication:
    """One call that publishes to one event. Each accepted event is on the bus when its result is given."""

    def __init__(self, publisher: EventPublisher, definition: PlatformEventDefinition, user_id: str) -> None:
        self._publisher = publisher
        self._definition = definition
        self._user_id = user_id

    def results(self, request: pb.PublishRequest) -> list[pb.PublishResult]:
        """Return the results in the order of the request's events. Raises RpcRefusal for a request that ends the
        call."""
        if request.ByteSize() > MAX_REQUEST_BYTES:
            raise PUBLISH_REQUEST_TOO_LARGE()
        if not request.events:
            raise NO_EVENTS_TO_PUBLISH()
        found: list[EventToPublish | RecordError] = []
        accepted: list[EventToPublish] = []
        for event in request.events:
            found.append(self._accepted(event, len(accepted)))
            accepted += [each for each in found[-1:] if isinstance(each, EventToPublish)]
        try:
            replay_ids = iter(self._publisher.store(accepted))
        except OrgUnavailableError:
            raise UNAVAILABLE() from None
        return [
            pb.PublishResult(replay_id=next(replay_ids), correlation_key=each.event_id)
            if isinstance(each, EventToPublish)
            else pb.PublishResult(
                error=pb.Error(code=pb.ErrorCode.PUBLISH, msg=f"{each.error_code}: {each.message}"),
                correlation_key=event.id,
            )
            for event, each in zip(request.events, found, strict=True)
        ]

    def _accepted(self, event: pb.ProducerEvent, waiting: int) -> EventToPublish | RecordError:
        try:
            if len(event.payload) > MAX_EVENT_BYTES:
                size = f"The event message has {len(event.payload):,} bytes; the most is {MAX_EVENT_BYTES:,}."
                raise RecordError("EVENT_MESSAGE_TOO_LARGE", size)
            if len(event.id) > MAX_ID_LENGTH:
                raise RecordError("INVALID_EVENT_ID", f"The event ID has more than {MAX_ID_LENGTH} characters.")
            return self._publisher.of_payload(
                self._definition, event.payload, event.schema_id, event.id, self._user_id, waiting=waiting
            )
        except RecordError as error:
            return error


class PublishStream(RequestStream[pb.PublishRequest]):
    """The state of one PublishStream call."""

    def __init__(
        self, bus: EventBus, publication: Publication, first: pb.PublishRequest, clock: Clock, idle_seconds: float
    ) -> None:
        """Begin a stream. Raise RpcRefusal for a first request that cannot be one."""
        if first.auth_refresh:
            raise PUBLISH_REFRESH_REFUSED()
        super().__init__(bus.changed, clock)
        self._requests.append(first)
        self._publication = publication
        self._topic = first.topic_name
        self._idle_seconds = idle_seconds

    def results(self) -> Iterator[list[pb.PublishResult]]:
        """Yield the results of each request, until the call is over. Raises RpcRefusal for a wrong request, and when
        none came for too long."""
        heard = self._clock()
        while True:
            with self._changed:
                if not self._wait(self._is_due, partial(self._idle_since, heard)):
                    raise PUBLISH_STREAM_IDLE(seconds=self._idle_seconds)
                if self._ended or not self._requests:
                    return
                request = self._requests.popleft()
            if request.topic_name and request.topic_name != self._topic:
                raise PUBLISH_TOPIC_MISMATCH(first=self._topic, later=request.topic_name)
            results = self._publication.results(request)
            heard = self._clock()
            yield results

    def _idle_since(self, heard: int) -> int:
        """Return when a stream that was last heard of then has been idle for too long (epoch ms)."""
        return heard + round(self._idle_seconds * 1000)

    def _is_due(self) -> bool:
        return bool(self._requests) or self._ended or self._is_closing
