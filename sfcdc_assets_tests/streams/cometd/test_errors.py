"""What the Streaming API refuses becomes an error that says what to do: the vendor's texts, one by one (Streaming API
Developer Guide, "Streaming API Error Codes")."""

from __future__ import annotations

import pytest

from sfcdc_assets.streams import errors as streams
from sfcdc_assets.streams.cometd import errors
from sfcdc_assets.streams.cometd.errors import CometdError, error_of, error_of_status
from sfcdc_assets.streams.cometd.replies import Refusal, code_and_text, refusal_of

TEXTS: list[tuple[str, type[CometdError]]] = [
    ("400::API version in the URI is mandatory. URI format: '/cometd/43.0'", errors.VersionRefused),
    ("400::Unsupported API version. Supported API versions are 23.0 or higher", errors.VersionRefused),
    ("400::Invalid connection type websocket", errors.ProtocolRefused),
    ("400::The channel you requested to subscribe to doesn't exist {/data/XChangeEvent}", errors.ChannelNotFound),
    ("400::The channel you requested to subscribe to does not exist {/data/XChangeEvent}", errors.ChannelNotFound),
    ("400::Channel name not specified", errors.ProtocolRefused),
    ("400::Channel subscriptions must start with a leading '/'", errors.ProtocolRefused),
    ("400::Query fields {X} do not exist on the topic entity", errors.FilterRefused),
    ("400::Client a1 has established a session, but no BAYEUX_BROWSER cookie present", errors.SessionLost),
    (
        "400::The replayId {7} you provided was invalid. Please provide a valid ID, -2 to replay all events, or -1 to "
        "replay only new events.",
        errors.ReplayIdRefused,
    ),
    ("400::Authenticated user id does not match the session's user id", errors.SessionLost),
    ("401::Authentication invalid", errors.TokenExpired),
    ("401::Request requires authentication", errors.TokenExpired),
    ("402::Unknown client", errors.SessionLost),
    ("403::Unknown client", errors.SessionLost),
    ("403::Cannot create channel /u/x", errors.ChannelNotPermitted),
    ("403::Subscriber does not have access to the entity in this topic", errors.ChannelNotPermitted),
    (
        "403::Subscriber does not have access to the fields referenced in the where clause",
        errors.ChannelNotPermitted,
    ),
    ("403::Handshake denied", errors.TokenExpired),
    ("403::Client has not completed handshake", errors.SessionLost),
    ("403::Organization concurrent user limit exceeded", errors.TooManyClients),
    ("403::Organization total events daily limit exceeded", errors.DeliveryLimitReached),
    ("403::Restricted channel", errors.ChannelNotPermitted),
    ("403::User not enabled for streaming", errors.UserNotEnabled),
    ("403::User not allowed to subscribe CDC without View All Data permissions", errors.ChannelNotPermitted),
    ("403::User not allowed to subscribe CDC without required permissions", errors.ChannelNotPermitted),
    ("403::Subscription limit exceeded for this topic", errors.TooManyClients),
    ("403::To protect all customers, too many simultaneous connections are refused", errors.TooManyClients),
    (
        "403::Unable to create channel dynamically. Channel doesn't exist or you don't have access",
        errors.ChannelNotFound,
    ),
    ("403::No access on channel", errors.ChannelNotPermitted),
    ("404::Channel names may not vary only by case", errors.ChannelNotFound),
    ("404::Unknown channel", errors.ChannelNotFound),
    ("413::Maximum Request Size Exceeded", errors.RequestTooLarge),
    ("503::Server is too busy. Please try your request again later.", errors.ServerBusy),
    ("500::Something nobody has told of", errors.CometdUnavailable),
    ("no code at all", errors.CometdUnavailable),
]


@pytest.mark.parametrize(("text", "kind"), TEXTS)
def test_a_text_of_the_vendor_is_an_error_with_a_remedy(text: str, kind: type[CometdError]) -> None:
    refusal = refusal_of({"error": text, "successful": False}, "/meta/subscribe", "/data/ChangeEvents", "7")
    error = error_of(refusal)
    assert type(error) is kind
    assert "/meta/subscribe" in str(error) or kind is errors.ReplayIdRefused
    assert code_and_text(text)[1].rstrip(".")[:300] in str(error)
    assert error.remedy in str(error)


def test_the_reason_of_a_denied_handshake_is_what_counts() -> None:
    busy = {"error": "403::Handshake denied", "ext": {"sfdc": {"failureReason": "503::Server is too busy."}}}
    assert type(error_of(refusal_of(busy, "/meta/handshake"))) is errors.ServerBusy
    invalid = {"error": "403::Handshake denied", "ext": {"sfdc": {"failureReason": "401::Authentication invalid"}}}
    assert type(error_of(refusal_of(invalid, "/meta/handshake"))) is errors.TokenExpired


@pytest.mark.parametrize(
    ("reconnect", "kind"),
    [
        ("retry", errors.CometdUnavailable),
        ("handshake", errors.SessionLost),
        ("none", errors.EndedByService),
    ],
)
def test_advice_decides_where_the_text_is_not_known(reconnect: str, kind: type[CometdError]) -> None:
    error = error_of(Refusal("/meta/connect", text="something new"), reconnect=reconnect, pause=0.5)
    assert type(error) is kind
    assert error.pause == max(0.5, kind.least_pause)
    assert type(error_of(Refusal("/meta/connect", text="Unknown client"), reconnect="none")) is errors.SessionLost


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, "Unauthorized", errors.TokenExpired),
        (403, "Forbidden", errors.TokenExpired),
        (403, "Unknown client", errors.SessionLost),
        (413, "Maximum Request Size Exceeded", errors.RequestTooLarge),
        (500, "Internal Server Error", errors.CometdUnavailable),
        (503, "Service Unavailable", errors.ServerBusy),
    ],
)
def test_an_answer_by_http_alone_is_reported_too(status: int, text: str, kind: type[CometdError]) -> None:
    assert type(error_of_status(status, Refusal("/meta/connect", code=status, text=text))) is kind


def test_landing_knows_each_of_them_by_its_own_words() -> None:
    kinds = {kind for _, kind in TEXTS}
    known = (
        streams.TransportUnavailable,
        streams.AuthenticationRefused,
        streams.ChannelNotFound,
        streams.ChannelNotPermitted,
        streams.ReplayIdRefused,
        streams.DeliveryLimitReached,
    )
    others = {kind for kind in kinds if not issubclass(kind, known)}
    assert others == {errors.VersionRefused, errors.RequestTooLarge, errors.ProtocolRefused}
