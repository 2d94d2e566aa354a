"""What the Pub/Sub API refuses, as errors that say what to do (docs/salesforce-streams.md, "Errors of the
Pub/Sub API").

A refusal is known by the suffix of its `error-code` trailer. The gRPC status is no help: an outage comes as INTERNAL,
and what has no error-code at all is the network's doing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import grpc

from sfcdc_assets.streams import errors as streams

ERROR_CODE_PREFIX = "sfdc.platform.eventbus.grpc."
_DETAILS_SHOWN = 300


@dataclass(frozen=True)
class Refusal:
    """The facts of one failed call. Two are the same refusal when they differ in the call's id alone, which
    Salesforce's own `details` end with."""

    rpc: str
    subject: str
    """The topic, or the schema id of GetSchema."""
    status: str
    """The gRPC status, such as INTERNAL; OK for a stream that was ended without an error."""
    error_code: str
    """Without its prefix, such as `service.unavailable`; empty when the service gave none."""
    details: str = field(compare=False)
    rpc_id: str = field(compare=False)
    replay_id: str
    """The replay id the call started after, in hex; empty when it started from none."""


class PubSubError(streams.TransportError):
    """A call of the Pub/Sub API failed. `refusal` has the facts."""

    problem = "The Pub/Sub API refused {rpc} of {subject}"

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        facts = {"rpc": refusal.rpc, "subject": refusal.subject or "a blank name", "replay_id": refusal.replay_id}
        said = [part for part in (refusal.error_code, refusal.details) if part] or [refusal.status]
        is_named = not refusal.rpc_id or refusal.rpc_id in refusal.details  # Salesforce's own texts end with it
        trace = "" if is_named else f", rpc id {refusal.rpc_id}"
        super().__init__(
            f"{self.problem.format(**facts)} ({': '.join(said)}{trace}). {self.remedy_for(refusal.subject)}"
        )


class PubSubUnavailable(PubSubError, streams.TransportUnavailable):
    """The service or the way to it is down; raised after the retries, the last refusal in it."""

    problem = "The Pub/Sub API did not answer {rpc} of {subject}, retries included"
    remedy = (
        "Check SFCDC_PUBSUB_ENDPOINT, SFCDC_CA_FILE, the firewall (port 7443, or 443) and the status of Salesforce; "
        "what was landed before is kept, the next poll goes on from there."
    )


class AuthenticationRefused(PubSubError, streams.AuthenticationRefused):
    """The token is not accepted."""

    problem = "The Pub/Sub API does not accept the access token for {rpc} of {subject}"
    remedy = (
        "A new token does not help: check that SFCDC_INSTANCE_URL and SFCDC_ORG_ID are the token's own org, that the "
        "connected app has the scope `api` and that sessions are not locked to the IP address of the login."
    )


class TokenExpired(AuthenticationRefused, streams.TokenExpired):
    """The token is not accepted, and a new one may be."""

    def final(self) -> AuthenticationRefused:
        """See `streams.errors.TokenExpired.final`."""
        return AuthenticationRefused(self.refusal)


class TopicNotFound(PubSubError, streams.ChannelNotFound):
    """There is no such channel in the org."""

    problem = "The org has no channel {subject}"


class TopicNotPermitted(PubSubError, streams.ChannelNotPermitted):
    """The user may not subscribe to the channel, or the org has no licence for it."""

    problem = "The user may not read {subject}"


class ManagedSubscriptionNotFound(PubSubError, streams.ChannelNotFound):
    """The org has no managed event subscription of that name, or none any more."""

    problem = "The org has no managed event subscription {subject}"
    remedy = (
        "Create it (Tooling API, ManagedEventSubscription), or correct its developer name in SFCDC_CHANNELS. "
        "Reading goes on from this warehouse's place either way."
    )


class ManagedSubscriptionStopped(PubSubError, streams.ChannelNotPermitted):
    """The managed event subscription is not to run."""

    problem = "The managed event subscription {subject} is stopped"
    remedy = "Set its state to RUN; events wait for 72 hours."


class ManagedSubscriptionActive(PubSubUnavailable):
    """Another call reads the managed event subscription, or one of ours that the service has not noticed the end of."""

    problem = "The managed event subscription {subject} is being read by another call"
    remedy = "It passes when that call ends; let only one process read it."
    pause = 1.0


class ReplayIdRefused(PubSubError, streams.ReplayIdRefused):
    """The place in the stream is lost: the replay id is older than the retention of 72 hours, or the org was moved."""

    problem = "The place in {subject} is lost: replay id {replay_id} is no longer accepted"


class DeliveryLimitReached(PubSubError, streams.DeliveryLimitReached):
    """The org's events of the last 24 hours are used up."""

    problem = "The org's daily event delivery allowance is used up; {subject} was not read"


class SchemaNotFound(PubSubError, streams.SchemaNotFound):
    """The org does not give out this schema."""

    problem = "The org has no event schema {subject}"
    remedy = "The events that name it are kept as received until it is known."


class SchemaNotPermitted(SchemaNotFound):
    """The user may not read this schema; for the channel it is an unknown one, no more."""

    problem = "The user may not read the event schema {subject}"
    remedy = (
        "Give the integration user read access to the object; its events are kept as received and its records are read "
        "back until then."
    )


class ProtocolRefused(PubSubError, streams.ProtocolRefused):
    """A request was malformed: a defect of this package."""

    problem = "The Pub/Sub API calls {rpc} of {subject} malformed"


_BY_SUFFIX: tuple[tuple[str, type[PubSubError]], ...] = (
    ("service.auth.error", TokenExpired),
    ("service.auth.refresh.invalid", TokenExpired),
    ("service.auth.headers.invalid", AuthenticationRefused),
    ("service.tenant.license", TopicNotPermitted),
    ("topic.not.found", TopicNotFound),
    ("topic.meta.permission", TopicNotPermitted),
    ("topic.cannot.subscribe", TopicNotPermitted),
    ("schema.meta.permission", SchemaNotPermitted),
    ("managed.subscription.already.active", ManagedSubscriptionActive),
    ("managed.subscription.config.stopped", ManagedSubscriptionStopped),
    ("managed.subscription.config.deleted", ManagedSubscriptionNotFound),
    ("managed.subscription.developer.name.not.found", ManagedSubscriptionNotFound),
    ("managed.subscription.id.or.developer.name.empty", ProtocolRefused),
    ("managed.subscription.fetch.request.events.invalid", ProtocolRefused),
    ("commit.request.restricted", ProtocolRefused),
    ("auth.request.restricted", ProtocolRefused),
    ("topic.validation.empty", ProtocolRefused),
    ("schema.validation.failed", SchemaNotFound),
    ("schema.not.found", SchemaNotFound),
    ("fetch.replayid.corrupted", ReplayIdRefused),
    ("fetch.replayid.validation.failed", ReplayIdRefused),
    ("subscription.limit.exceeded", DeliveryLimitReached),
    ("fetch.requested.events.invalid", ProtocolRefused),
    ("fetch.topic.mismatch", ProtocolRefused),
    ("fetch.request.invalid", ProtocolRefused),
)
"""All others (`service.unavailable`, `topic.api.unavailable`, `service.protection.triggered` ...) pass with time."""


def refused(
    error: grpc.RpcError, *, rpc: str, subject: str, replay_id: bytes = b"", secret: str | None = None
) -> PubSubError:
    """Return the error that a failed call stands for; `PubSubUnavailable` for all that may pass with time.

    `secret` is taken out of whatever the service said.
    """
    trailers = {str(key): value for key, value in error.trailing_metadata() or ()}
    code = _text(trailers.get("error-code")).removeprefix(ERROR_CODE_PREFIX)
    status = error.code()
    refusal = Refusal(
        rpc=rpc,
        subject=subject,
        status=status.name if status is not None else "UNKNOWN",
        error_code=_without(code, secret),
        details=_without(_text(error.details()), secret)[:_DETAILS_SHOWN],
        rpc_id=_without(_text(trailers.get("rpc-id")), secret),
        replay_id=replay_id.hex(),
    )
    return _error_class(code, status)(refusal)


def ended(*, rpc: str, subject: str, replay_id: bytes = b"") -> PubSubUnavailable:
    """Return the error of a stream that the service ended with status OK, as it does with idle ones."""
    return PubSubUnavailable(Refusal(rpc, subject, "OK", "", "the service ended the stream", "", replay_id.hex()))


def _error_class(code: str, status: object) -> type[PubSubError]:
    for suffix, error_class in _BY_SUFFIX:
        if code == suffix or code.endswith("." + suffix):
            return error_class
    # A proxy on the way may refuse the token without an error-code; asking for a new one does no harm.
    return TokenExpired if not code and status is grpc.StatusCode.UNAUTHENTICATED else PubSubUnavailable


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _without(text: str, secret: str | None) -> str:
    return text.replace(secret, "***") if secret else text
