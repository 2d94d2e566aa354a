"""Error codes of the Pub/Sub API with status and text, for the faults `call_refused` and `stream_refused`: those that
depend on more than the request, such as licences, permissions, load and outages
(https://developer.salesforce.com/docs/platform/pub-sub-api/guide/handling-errors.html).

The vendor documents the codes; where a status or text is not known, the status is the nearest one of gRPC. Clients must
go by the code.
"""

from __future__ import annotations

from collections.abc import Mapping

from grpc import StatusCode

from sfcdc_assets.emulator.rpc_refusal import RpcRefusal

CODES: Mapping[str, tuple[StatusCode, str]] = {
    "service.unavailable": (StatusCode.INTERNAL, "The service is unavailable. Try again later."),
    "service.auth.error": (
        StatusCode.UNAUTHENTICATED,
        "An authentication exception occurred. Provide valid authentication via metadata headers.",
    ),
    "service.auth.refresh.invalid": (StatusCode.UNAUTHENTICATED, "The refreshed authentication is invalid."),
    "service.protection.triggered": (
        StatusCode.RESOURCE_EXHAUSTED,
        "There are too many connections or requests. Slow down and try again later.",
    ),
    "service.protection.stream.limit.triggered": (
        StatusCode.RESOURCE_EXHAUSTED,
        "There are too many requests on this stream. Slow down and try again later.",
    ),
    "service.tenant.license": (StatusCode.PERMISSION_DENIED, "The org isn't licensed for the Pub/Sub API."),
    "concurrent.client.limit.exceeded": (
        StatusCode.RESOURCE_EXHAUSTED,
        "The org has exceeded the number of concurrent clients.",
    ),
    "topic.meta.permission": (
        StatusCode.PERMISSION_DENIED,
        "An error occurred while getting the metadata for the org and topic. Ensure the credentials and topic name are "
        "correct.",
    ),
    "topic.api.unavailable": (StatusCode.INTERNAL, "The topic information can't be retrieved. Try again later."),
    "schema.meta.permission": (StatusCode.PERMISSION_DENIED, "The user doesn't have permission to read the schema."),
    "schema.api.unavailable": (StatusCode.INTERNAL, "The schema information can't be retrieved. Try again later."),
    "subscription.limit.exceeded": (
        StatusCode.RESOURCE_EXHAUSTED,
        "You have exceeded the event delivery limit for your org.",
    ),
    "subscription.fetch.replay.repeated": (
        StatusCode.INTERNAL,
        "An event has a lower replay ID than the one before it. Restart the subscription.",
    ),
    "subscription.fetch.overflow": (
        StatusCode.RESOURCE_EXHAUSTED,
        "More events are requested than are taken from the stream.",
    ),
    "subscription.fetch.request.invalid": (StatusCode.INVALID_ARGUMENT, "The fetch request is invalid."),
    "subscription.internal.error": (StatusCode.INTERNAL, "An internal error occurred. Restart the subscription."),
}
"""What follows `sfdc.platform.eventbus.grpc.` -> status and text."""


def refusal_of(code: str) -> RpcRefusal:
    """A call that ends with one of CODES. Raises KeyError for another."""
    status, message = CODES[code]
    return RpcRefusal(status, message, code)
