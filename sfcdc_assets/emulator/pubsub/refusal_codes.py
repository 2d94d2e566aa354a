"""Error codes of the Pub/Sub API with status and text, for the faults `call_refused` and `stream_refused`: those that
depend on more than the request, such as licences, permissions, load and outages
(https://developer.salesforce.com/docs/platform/pub-sub-api/guide/handling-errors.html).

The vendor documents the codes; where a status or text is not known, the status is the nearest one of gRPC. Clients must
go by the code.
"""

from __future__ import annotations

from collections.abc import Mapping

from grpc import StatusCode

from sfcdc_assets.emulator.pubsub.rpc_refusal import (
    BAD_CREDENTIALS,
    DELIVERY_LIMIT_EXCEEDED,
    SCHEMA_UNAVAILABLE,
    UNAVAILABLE,
    Refusal,
)

CODES: Mapping[str, Refusal] = {
    refusal.code: refusal
    for refusal in (
        UNAVAILABLE,
        BAD_CREDENTIALS,
        Refusal(StatusCode.UNAUTHENTICATED, "service.auth.refresh.invalid", "The refreshed authentication is invalid."),
        Refusal(
            StatusCode.RESOURCE_EXHAUSTED,
            "service.protection.triggered",
            "There are too many connections or requests. Slow down and try again later.",
        ),
        Refusal(
            StatusCode.RESOURCE_EXHAUSTED,
            "service.protection.stream.limit.triggered",
            "There are too many requests on this stream. Slow down and try again later.",
        ),
        Refusal(StatusCode.PERMISSION_DENIED, "service.tenant.license", "The org isn't licensed for the Pub/Sub API."),
        Refusal(
            StatusCode.RESOURCE_EXHAUSTED,
            "concurrent.client.limit.exceeded",
            "The org has exceeded the number of concurrent clients.",
        ),
        Refusal(
            StatusCode.PERMISSION_DENIED,
            "topic.meta.permission",
            "An error occurred while getting the metadata for the org and topic. Ensure the credentials and topic"
            " name are correct.",
        ),
        Refusal(
            StatusCode.INTERNAL, "topic.api.unavailable", "The topic information can't be retrieved. Try again later."
        ),
        Refusal(
            StatusCode.PERMISSION_DENIED,
            "schema.meta.permission",
            "The user doesn't have permission to read the schema.",
        ),
        SCHEMA_UNAVAILABLE,
        DELIVERY_LIMIT_EXCEEDED,
        Refusal(
            StatusCode.INTERNAL,
            "subscription.fetch.replay.repeated",
            "An event has a lower replay ID than the one before it. Restart the subscription.",
        ),
        Refusal(
            StatusCode.RESOURCE_EXHAUSTED,
            "subscription.fetch.overflow",
            "More events are requested than are taken from the stream.",
        ),
        Refusal(StatusCode.INVALID_ARGUMENT, "subscription.fetch.request.invalid", "The fetch request is invalid."),
        Refusal(
            StatusCode.INTERNAL, "subscription.internal.error", "An internal error occurred. Restart the subscription."
        ),
    )
}
"""By what follows `sfdc.platform.eventbus.grpc.`."""
