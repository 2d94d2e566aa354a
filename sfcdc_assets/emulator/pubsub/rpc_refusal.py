"""How the Pub/Sub API says no: status, `error-code` and text of each situation (docs/salesforce-streams.md,
"Errors of the Pub/Sub API").

Where that page leaves a status open, the choice is the nearest gRPC one: clients must go by the error code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grpc import StatusCode

from sfcdc_assets.runtime.errors import SfcdcError

_PREFIX = "sfdc.platform.eventbus.grpc."


class RpcRefusal(SfcdcError):
    """A call that ends with an error status. `error_code` is None for ends that carry no trailers."""

    def __init__(self, status: StatusCode, message: str, error_code: str | None) -> None:
        self.status = status
        self.message = message
        self.error_code = None if error_code is None else _PREFIX + error_code
        super().__init__(message)


@dataclass(frozen=True)
class Refusal:
    """A situation. Called with the facts that `text` names, it gives what ends the call."""

    status: StatusCode
    code: str
    """What follows `sfdc.platform.eventbus.grpc.`; empty where there are no trailers."""
    text: str

    def __call__(self, **facts: object) -> RpcRefusal:
        """Return the refusal with these facts in its text."""
        return RpcRefusal(self.status, self.text.format(**facts), self.code or None)


BAD_CREDENTIALS = Refusal(
    StatusCode.UNAUTHENTICATED,
    "service.auth.error",
    "An authentication exception occurred. Provide valid authentication via metadata headers.",
)
"""The token is unknown or expired, or belongs to another org, or the instance is another org's."""
BAD_HEADER = Refusal(
    StatusCode.UNAUTHENTICATED,
    "service.auth.headers.invalid",
    "The {name} header is missing or invalid. Provide valid authentication via metadata headers.",
)
"""One of the three metadata headers is missing, blank or malformed."""
UNAVAILABLE = Refusal(StatusCode.INTERNAL, "service.unavailable", "The service is unavailable. Try again later.")
"""The service is down: INTERNAL, not UNAVAILABLE."""
STREAM_RESET = Refusal(StatusCode.INTERNAL, "", "Received RST_STREAM with code 0 (Call ended without gRPC status)")
"""What a client's library reports when the stream is reset under it; it has no trailers."""
TOPIC_EMPTY = Refusal(
    StatusCode.INVALID_ARGUMENT, "topic.validation.empty", "Topic validation failed. The topic name can't be blank."
)
TOPIC_NOT_FOUND = Refusal(
    StatusCode.NOT_FOUND,
    "topic.not.found",
    "The topic information for org {tenant_guid} and topic {topic} not found. Ensure the topic name is "
    "correct and that the topic exists.",
)
CANNOT_SUBSCRIBE = Refusal(
    StatusCode.PERMISSION_DENIED,
    "subscription.topic.cannot.subscribe",
    "The user in org {tenant_guid} doesn't have permission to subscribe to topic {topic}. Ensure the user"
    " can view all records of the object.",
)
"""The user may not read the entity of a single-entity topic."""
CANNOT_PUBLISH = Refusal(
    StatusCode.PERMISSION_DENIED,
    "publish.topic.cannot.publish",
    "Topic {topic} can't be published to. Publish to the topic of a platform event.",
)
"""Change event topics are published to by the org alone, and channels by the events that are their members."""
PUBLISH_TOPIC_EMPTY = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "publish.topic.validation.empty",
    "Topic validation failed. The topic name can't be blank.",
)
PUBLISH_TOPIC_MISMATCH = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "publish.topic.mismatch",
    "The topic {later} doesn't match the topic {first} of the first request. Use one stream for each topic.",
)
NO_EVENTS_TO_PUBLISH = Refusal(
    StatusCode.INVALID_ARGUMENT, "publish.event.count.invalid", "A publish request must have at least one event."
)
PUBLISH_REFRESH_REFUSED = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "publish.auth.refresh.invalid",
    "auth_refresh can't be part of a first publish request.",
)
PUBLISH_STREAM_IDLE = Refusal(
    StatusCode.DEADLINE_EXCEEDED,
    "publish.stream.sweeper.timeout",
    "No events were published within {seconds:g} seconds.",
)
"""No request with an event came for too long."""
PUBLISH_REQUEST_TOO_LARGE = Refusal(
    StatusCode.UNAVAILABLE, "", "upstream connect error or disconnect/reset before headers. reset reason: remote reset"
)
"""The proxy in front of the service resets it, so it has no trailers (https://developer.salesforce.com/docs/
platform/pub-sub-api/guide/allocations.html)."""
TOPIC_MISMATCH = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "subscription.fetch.topic.mismatch",
    "The topic {later} doesn't match the topic {first} of the first request. Use one stream for each topic.",
)
BAD_NUM_REQUESTED = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "subscription.fetch.requested.events.invalid",
    "The number of requested events must be greater than zero. It is {num_requested}.",
)
REPLAY_ID_MISSING = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "subscription.fetch.replayid.validation.failed",
    "The Replay ID validation failed. A replay ID is required with the CUSTOM replay preset.",
)
REPLAY_PRESET_UNKNOWN = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "subscription.fetch.replayid.validation.failed",
    "The Replay ID validation failed. {preset} is no replay preset.",
)
REPLAY_ID_CORRUPTED = Refusal(
    StatusCode.INVALID_ARGUMENT,
    "subscription.fetch.replayid.corrupted",
    "The Replay ID validation failed. Ensure that the Replay ID is valid. Replay ID: {replay}.",
)
IDLE_TOO_LONG = Refusal(
    StatusCode.DEADLINE_EXCEEDED,
    "subscription.fetch.request.invalid",
    "No events were requested within {seconds:g} seconds after all requested events were delivered.",
)
"""The optional error end of a stream on which nothing is requested any more."""
DELIVERY_LIMIT_EXCEEDED = Refusal(
    StatusCode.RESOURCE_EXHAUSTED,
    "subscription.limit.exceeded",
    "You have exceeded the event delivery limit for your org.",
)
"""The events that may be delivered in 24 hours have been; the status is not documented."""
SCHEMA_UNAVAILABLE = Refusal(
    StatusCode.INTERNAL, "schema.api.unavailable", "The schema information can't be retrieved. Try again later."
)
"""The schema cannot be read at the moment."""
SCHEMA_ID_BLANK = Refusal(
    StatusCode.INVALID_ARGUMENT, "schema.validation.failed", "Schema validation failed. The schema ID can't be blank."
)
SCHEMA_NOT_FOUND = Refusal(
    StatusCode.NOT_FOUND,
    "schema.validation.failed",
    "The schema {schema_id} was not found for org {tenant_guid}. Ensure the schema ID is correct.",
)
SCHEMA_NOT_PERMITTED = Refusal(
    StatusCode.PERMISSION_DENIED,
    "schema.meta.permission",
    "An error occurred while getting the metadata for org {tenant_guid} and schema {schema_id}. Ensure "
    "that the user may read it.",
)
"""The user may not read the object the schema is of."""

MANAGED: Mapping[str, Refusal] = {
    code: Refusal(status, f"managed.subscription.{code}", text)
    for code, status, text in (
        ("already.active", StatusCode.ALREADY_EXISTS, "The managed subscription has an active stream already."),
        ("config.stopped", StatusCode.FAILED_PRECONDITION, "The managed subscription is in the STOP state."),
        ("config.deleted", StatusCode.NOT_FOUND, "The managed subscription was deleted."),
        ("developer.name.not.found", StatusCode.NOT_FOUND, "There is no managed subscription of that developer name."),
        ("subscription.id.not.found", StatusCode.NOT_FOUND, "There is no managed subscription of that ID."),
        ("subscription.id.invalid", StatusCode.INVALID_ARGUMENT, "The subscription ID must have 15 or 18 characters."),
        (
            "id.or.developer.name.empty",
            StatusCode.INVALID_ARGUMENT,
            "The first request must have the subscription ID or the developer name, and not both.",
        ),
        (
            "fetch.request.events.invalid",
            StatusCode.INVALID_ARGUMENT,
            "The number of requested events must be greater than zero in the first request, and not negative later.",
        ),
        ("fetch.request.invalid", StatusCode.INVALID_ARGUMENT, "A later request names another managed subscription."),
        (
            "fetch.request.commit.request.restricted",
            StatusCode.INVALID_ARGUMENT,
            "The first request can't have a commit.",
        ),
        ("fetch.request.auth.request.restricted", StatusCode.INVALID_ARGUMENT, "auth_refresh is for internal use."),
    )
}
"""Of ManagedSubscribe, by what follows `managed.subscription.` in the code."""
