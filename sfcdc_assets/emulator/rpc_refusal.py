"""How the Pub/Sub API says no: status, text and `error-code` of each situation (docs/salesforce-streams.md,
"Errors of the Pub/Sub API").

Where that page leaves a status open, the choice is the nearest gRPC one: clients must go by the error code.
"""

from __future__ import annotations

from grpc import StatusCode

from sfcdc_assets.errors import SfcdcError

_PREFIX = "sfdc.platform.eventbus.grpc."


class RpcRefusal(SfcdcError):
    """A call that ends with an error status. `error_code` is None for ends that carry no trailers."""

    def __init__(self, status: StatusCode, message: str, error_code: str | None) -> None:
        self.status = status
        self.message = message
        self.error_code = None if error_code is None else _PREFIX + error_code
        super().__init__(message)


def bad_credentials() -> RpcRefusal:
    """The token is unknown or expired, or belongs to another org, or the instance is another org's."""
    return RpcRefusal(
        StatusCode.UNAUTHENTICATED,
        "An authentication exception occurred. Provide valid authentication via metadata headers.",
        "service.auth.error",
    )


def bad_header(name: str) -> RpcRefusal:
    """One of the three metadata headers is missing, blank or malformed."""
    return RpcRefusal(
        StatusCode.UNAUTHENTICATED,
        f"The {name} header is missing or invalid. Provide valid authentication via metadata headers.",
        "service.auth.headers.invalid",
    )


def unavailable() -> RpcRefusal:
    """The service is down: INTERNAL, not UNAVAILABLE."""
    return RpcRefusal(StatusCode.INTERNAL, "The service is unavailable. Try again later.", "service.unavailable")


def stream_reset() -> RpcRefusal:
    """What a client's library reports when the stream is reset under it; it has no trailers."""
    return RpcRefusal(StatusCode.INTERNAL, "Received RST_STREAM with code 0 (Call ended without gRPC status)", None)


def topic_empty() -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        "Topic validation failed. The topic name can't be blank.",
        "topic.validation.empty",
    )


def topic_not_found(topic: str, tenant_guid: str) -> RpcRefusal:
    return RpcRefusal(
        StatusCode.NOT_FOUND,
        f"The topic information for org {tenant_guid} and topic {topic} not found. "
        "Ensure the topic name is correct and that the topic exists.",
        "topic.not.found",
    )


def cannot_subscribe(topic: str, tenant_guid: str) -> RpcRefusal:
    """The user may not read the entity of a single-entity topic."""
    return RpcRefusal(
        StatusCode.PERMISSION_DENIED,
        f"The user in org {tenant_guid} doesn't have permission to subscribe to topic {topic}. "
        "Ensure the user can view all records of the object.",
        "subscription.topic.cannot.subscribe",
    )


def cannot_publish(topic: str) -> RpcRefusal:
    """Change event topics are published to by the org alone, and channels by the events that are their members."""
    return RpcRefusal(
        StatusCode.PERMISSION_DENIED,
        f"Topic {topic} can't be published to. Publish to the topic of a platform event.",
        "publish.topic.cannot.publish",
    )


def publish_topic_empty() -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        "Topic validation failed. The topic name can't be blank.",
        "publish.topic.validation.empty",
    )


def publish_topic_mismatch(first: str, later: str) -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        f"The topic {later} doesn't match the topic {first} of the first request. Use one stream for each topic.",
        "publish.topic.mismatch",
    )


def no_events_to_publish() -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        "A publish request must have at least one event.",
        "publish.event.count.invalid",
    )


def publish_refresh_refused() -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        "auth_refresh can't be part of a first publish request.",
        "publish.auth.refresh.invalid",
    )


def publish_stream_idle(seconds: float) -> RpcRefusal:
    """No request with an event came for too long."""
    return RpcRefusal(
        StatusCode.DEADLINE_EXCEEDED,
        f"No events were published within {seconds:g} seconds.",
        "publish.stream.sweeper.timeout",
    )


def publish_request_too_large() -> RpcRefusal:
    """The proxy in front of the service resets it, so it has no trailers (https://developer.salesforce.com/docs/
    platform/pub-sub-api/guide/allocations.html)."""
    return RpcRefusal(
        StatusCode.UNAVAILABLE,
        "upstream connect error or disconnect/reset before headers. reset reason: remote reset",
        None,
    )


def topic_mismatch(first: str, later: str) -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        f"The topic {later} doesn't match the topic {first} of the first request. Use one stream for each topic.",
        "subscription.fetch.topic.mismatch",
    )


def bad_num_requested(num_requested: int) -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        f"The number of requested events must be greater than zero. It is {num_requested}.",
        "subscription.fetch.requested.events.invalid",
    )


def replay_id_missing() -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        "The Replay ID validation failed. A replay ID is required with the CUSTOM replay preset.",
        "subscription.fetch.replayid.validation.failed",
    )


def replay_preset_unknown(preset: int) -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        f"The Replay ID validation failed. {preset} is no replay preset.",
        "subscription.fetch.replayid.validation.failed",
    )


def replay_id_corrupted(replay: bytes) -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        f"The Replay ID validation failed. Ensure that the Replay ID is valid. Replay ID: {replay.hex()}.",
        "subscription.fetch.replayid.corrupted",
    )


def idle_too_long(seconds: float) -> RpcRefusal:
    """The optional error end of a stream on which nothing is requested any more."""
    return RpcRefusal(
        StatusCode.DEADLINE_EXCEEDED,
        f"No events were requested within {seconds:g} seconds after all requested events were delivered.",
        "subscription.fetch.request.invalid",
    )


def delivery_limit_exceeded() -> RpcRefusal:
    """The events that may be delivered in 24 hours have been; the status is not documented."""
    return RpcRefusal(
        StatusCode.RESOURCE_EXHAUSTED,
        "You have exceeded the event delivery limit for your org.",
        "subscription.limit.exceeded",
    )


def schema_unavailable() -> RpcRefusal:
    """The schema cannot be read at the moment."""
    return RpcRefusal(
        StatusCode.INTERNAL, "The schema information can't be retrieved. Try again later.", "schema.api.unavailable"
    )


def schema_id_blank() -> RpcRefusal:
    return RpcRefusal(
        StatusCode.INVALID_ARGUMENT,
        "Schema validation failed. The schema ID can't be blank.",
        "schema.validation.failed",
    )


def schema_not_found(schema_id: str, tenant_guid: str) -> RpcRefusal:
    return RpcRefusal(
        StatusCode.NOT_FOUND,
        f"The schema {schema_id} was not found for org {tenant_guid}. Ensure the schema ID is correct.",
        "schema.validation.failed",
    )


def schema_not_permitted(schema_id: str, tenant_guid: str) -> RpcRefusal:
    """The user may not read the object the schema is of."""
    return RpcRefusal(
        StatusCode.PERMISSION_DENIED,
        f"An error occurred while getting the metadata for org {tenant_guid} and schema {schema_id}. Ensure that the "
        "user may read it.",
        "schema.meta.permission",
    )


_MANAGED = {
    "already.active": (StatusCode.ALREADY_EXISTS, "The managed subscription has an active stream already."),
    "config.stopped": (StatusCode.FAILED_PRECONDITION, "The managed subscription is in the STOP state."),
    "config.deleted": (StatusCode.NOT_FOUND, "The managed subscription was deleted."),
    "developer.name.not.found": (StatusCode.NOT_FOUND, "There is no managed subscription of that developer name."),
    "subscription.id.not.found": (StatusCode.NOT_FOUND, "There is no managed subscription of that ID."),
    "subscription.id.invalid": (StatusCode.INVALID_ARGUMENT, "The subscription ID must have 15 or 18 characters."),
    "id.or.developer.name.empty": (
        StatusCode.INVALID_ARGUMENT,
        "The first request must have the subscription ID or the developer name, and not both.",
    ),
    "fetch.request.events.invalid": (
        StatusCode.INVALID_ARGUMENT,
        "The number of requested events must be greater than zero in the first request, and not negative later.",
    ),
    "fetch.request.invalid": (StatusCode.INVALID_ARGUMENT, "A later request names another managed subscription."),
    "fetch.request.commit.request.restricted": (
        StatusCode.INVALID_ARGUMENT,
        "The first request can't have a commit.",
    ),
    "fetch.request.auth.request.restricted": (StatusCode.INVALID_ARGUMENT, "auth_refresh is for internal use."),
}


def managed_refusal(code: str) -> RpcRefusal:
    """A ManagedSubscribe call that ends in error; `code` is what follows `managed.subscription.`."""
    status, message = _MANAGED[code]
    return RpcRefusal(status, message, f"managed.subscription.{code}")
