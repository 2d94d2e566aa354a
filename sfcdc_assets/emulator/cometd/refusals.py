"""Errors of the Streaming API in the vendor's words: `code::text`, some with advice (Streaming API Developer Guide,
"Streaming API Error Codes")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HANDSHAKE_AT_ONCE: Mapping[str, Any] = {"interval": 0, "reconnect": "handshake"}
NOT_AGAIN: Mapping[str, Any] = {"interval": 0, "reconnect": "none"}


@dataclass(frozen=True)
class BayeuxRefusal:
    """Why a message is refused. `failure_reason` goes into `ext.sfdc` beside the error, `advice` beside both."""

    error: str
    advice: Mapping[str, Any] | None = None
    failure_reason: str | None = None

    def reply(self) -> dict[str, Any]:
        """Return what the reply has beside its channel and id."""
        reply: dict[str, Any] = {"error": self.error, "successful": False}
        if self.advice is not None:
            reply["advice"] = dict(self.advice)
        if self.failure_reason is not None:
            reply["ext"] = {"sfdc": {"failureReason": self.failure_reason}, "replay": True, "payload.format": True}
        return reply


class BayeuxRefused(Exception):
    """A message is refused."""

    def __init__(self, refusal: BayeuxRefusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.error)


VERSION_MANDATORY = BayeuxRefusal("400::API version in the URI is mandatory. URI format: '/cometd/60.0'")
UNSUPPORTED_VERSION = BayeuxRefusal(
    "400::Unsupported API version. Only API versions '23.0' and above are supported. URI format: '/cometd/60.0'"
)
NO_CHANNEL_NAME = BayeuxRefusal("400::Channel name not specified")
NO_LEADING_SLASH = BayeuxRefusal("400::Channel subscriptions must start with a leading '/'")
ANOTHER_USER = BayeuxRefusal("400::Authenticated user id does not match the session's user id", HANDSHAKE_AT_ONCE)
NO_HANDSHAKE = BayeuxRefusal("403::Client has not completed handshake", HANDSHAKE_AT_ONCE)
UNKNOWN_CLIENT = BayeuxRefusal("403::Unknown client", HANDSHAKE_AT_ONCE)
TOO_MANY_CLIENTS = BayeuxRefusal("403::Organization concurrent user limit exceeded", NOT_AGAIN)
TOO_MANY_EVENTS = BayeuxRefusal("403::Organization total events daily limit exceeded", NOT_AGAIN)
NO_ACCESS_TO_CHANGES = BayeuxRefusal("403::User not allowed to subscribe CDC without required permissions")
NO_ACCESS_TO_ENTITY = BayeuxRefusal("403::Subscriber does not have access to the entity in this topic")
NO_ACCESS_TO_WHERE = BayeuxRefusal("403::Subscriber does not have access to the fields referenced in the where clause")
NO_ACCESS_TO_CHANNEL = BayeuxRefusal("403::No access on channel")
CANNOT_CREATE_CHANNEL = BayeuxRefusal("403::Cannot create channel")
ONLY_BY_CASE = BayeuxRefusal("404::Channel names may not vary only by case")
USER_NOT_ENABLED = BayeuxRefusal("403::User not enabled for streaming")
RESTRICTED_CHANNEL = BayeuxRefusal("403::Restricted channel")
INVALID_TOKEN = BayeuxRefusal("401::Authentication invalid", NOT_AGAIN)
NO_TOKEN = BayeuxRefusal("401::Request requires authentication", NOT_AGAIN)
TOO_BUSY = BayeuxRefusal(
    "503::Server is too busy",
    {"interval": 2000, "reconnect": "retry"},
    "503::Server is too busy. Please try your request again later.",
)
UNKNOWN_CHANNEL = BayeuxRefusal("404::Unknown channel")
MALFORMED = BayeuxRefusal("400::The message is no Bayeux message")


def handshake_denied(reason: BayeuxRefusal) -> BayeuxRefusal:
    """Refuse a handshake, with the same words whatever the reason."""
    return BayeuxRefusal("403::Handshake denied", NOT_AGAIN, reason.failure_reason or reason.error)


def invalid_connection_type(kind: object) -> BayeuxRefusal:
    """Refuse a client that wants web sockets, for one."""
    return BayeuxRefusal(f"400::Invalid connection type {kind}")


def no_such_channel(channel: str) -> BayeuxRefusal:
    """Refuse a channel of the kind that is never made by a subscription."""
    return BayeuxRefusal(f"400::The channel you requested to subscribe to doesn't exist {{{channel}}}")


def no_such_fields(names: Sequence[str]) -> BayeuxRefusal:
    """Refuse a filter of a subscription that compares fields that the topic's query does not select."""
    return BayeuxRefusal(f"400::Query fields {', '.join(names)} do not exist on the topic entity")


def malformed_filter(rest: str) -> BayeuxRefusal:
    """Refuse a filter of a subscription that is no list of conditions; the vendor's text is not known."""
    return BayeuxRefusal(f"400::The filter of the subscription is malformed at {rest[:40]}")


def invalid_replay_id(replay_id: object) -> BayeuxRefusal:
    """Refuse a replay id; the braces are in the vendor's text."""
    return BayeuxRefusal(
        f"400::The replayId {{{replay_id}}} you provided was invalid. Please provide a valid ID, -2 to replay all "
        "events, or -1 to replay only new events."
    )


def no_cookie(client_id: str, name: str) -> BayeuxRefusal:
    """Refuse a message without the session's cookie. The session is sticky: without its cookie a request meets another
    server."""
    return BayeuxRefusal(
        f"400::Client {client_id} has established a session, but no {name} cookie present", HANDSHAKE_AT_ONCE
    )
