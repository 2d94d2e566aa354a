"""What the Streaming API refuses, as errors that say what to do (docs/salesforce-streams.md, "Errors of the Streaming
API").

The three digits before `::` are no help by themselves: 403 is a session that was forgotten, a missing permission and a
limit. So an error is known by its text.
"""

from __future__ import annotations

from sfcdc_assets.streams import errors as streams
from sfcdc_assets.streams.cometd.replies import Refusal

LONG_PAUSE_SECONDS = 60.0
"""After what the service asks its clients not to try again at once."""


class CometdError(streams.TransportError):
    """A message was refused or not answered. `refusal` has the facts; `pause`: seconds to wait before the next try at
    least, as the service's advice or the kind of the error asks for."""

    problem = "The Streaming API refused {message}{subject}"
    least_pause = 0.0

    def __init__(self, refusal: Refusal, pause: float = 0.0) -> None:
        self.refusal = refusal
        self.pause = max(pause, self.least_pause)
        subject = f" of {refusal.subject}" if refusal.subject else ""
        problem = self.problem.format(message=refusal.message, subject=subject, replay_id=refusal.replay_id)
        said = f"{refusal.code}: {refusal.text}" if refusal.code else refusal.text
        super().__init__(f"{problem} ({said.rstrip('.')}). {self.remedy_for(refusal.subject)}")


class CometdUnavailable(CometdError, streams.TransportUnavailable):
    """The service or the way to it is down; raised after the tries, the last refusal in it."""

    problem = "The Streaming API did not answer {message}{subject} in good order, retries included"
    remedy = (
        "Check SFCDC_INSTANCE_URL, SFCDC_CA_FILE, the proxy (it must let a request wait for two minutes) and the "
        "status of Salesforce; what was landed before is kept, the next poll goes on from there."
    )


class SessionLost(CometdUnavailable):
    """The service has forgotten the client, or the cookie that led to it is gone: a new handshake mends it."""

    problem = "The Streaming API has forgotten this client at {message}{subject}"
    remedy = "It is mended by a new handshake that goes on after the last event taken."


class BrokenAnswer(CometdUnavailable):
    """An answer that is cut off or no list of messages. What was in it comes again with the next session."""

    problem = "The answer to {message}{subject} is not a whole list of messages"
    remedy = "It is mended by a new handshake that goes on after the last event taken; if it stays, look at the proxy."


class ServerBusy(CometdUnavailable):
    """503: the server sends its clients away for a while."""

    problem = "The Streaming API is too busy for {message}{subject}"
    remedy = "Wait; it is tried again with growing pauses, and events are kept for 72 hours."


class TooManyClients(CometdUnavailable):
    """A limit of clients or subscriptions is reached, which others may give back."""

    problem = "The org lets no more clients subscribe ({message}{subject})"
    remedy = (
        "End other streaming clients (each open browser tab that listens may be one), or read over Pub/Sub "
        "(SFCDC_TRANSPORT=pubsub), which has no such limit."
    )
    least_pause = LONG_PAUSE_SECONDS


class EndedByService(CometdUnavailable):
    """The service ended the session with the advice not to come back, and gave no reason that is known."""

    problem = "The Streaming API ended the session at {message}{subject} and advises against another"
    remedy = "Another is begun with the next poll, not before a minute; if it stays, look at the org's setup."
    least_pause = LONG_PAUSE_SECONDS
    ends_take = True


class AuthenticationRefused(CometdError, streams.AuthenticationRefused):
    """The token is not accepted."""

    problem = "The Streaming API does not accept the access token for {message}{subject}"
    remedy = (
        "A new token does not help: check that SFCDC_INSTANCE_URL is the token's own org, that the connected app has "
        "the scope `api`, that the user has the permission API Enabled and that sessions are not locked to the IP "
        "address of the login."
    )


class TokenExpired(AuthenticationRefused, streams.TokenExpired):
    """The token is not accepted, and a new one may be."""

    def final(self) -> AuthenticationRefused:
        """See `streams.errors.TokenExpired.final`."""
        return AuthenticationRefused(self.refusal)


class ChannelNotFound(CometdError, streams.ChannelNotFound):
    """There is no such channel in the org."""

    problem = "The org has no channel{subject} ({message})"


class FilterRefused(ChannelNotFound):
    """The filter of a subscription to a PushTopic."""

    problem = "The filter{subject} is refused ({message})"
    remedy = (
        "Correct it in SFCDC_CHANNELS: fields that the topic's query selects, compared by = with a value in single "
        "quotes, joined by & (which means OR), ids with 18 characters: /topic/X?Industry='Energy'&BillingCity='Oslo'."
    )


class ChannelNotPermitted(CometdError, streams.ChannelNotPermitted):
    """The user may not subscribe to the channel."""

    problem = "The user may not subscribe{subject} ({message})"


class UserNotEnabled(ChannelNotPermitted):
    """The user or the org may not stream at all."""

    problem = "The user may not use the Streaming API ({message}{subject})"
    remedy = "Switch on the Streaming API in Setup (User Interface), and give the user API Enabled."


class ReplayIdRefused(CometdError, streams.ReplayIdRefused):
    """The place in the stream is lost: the replay id is older than the retention of 72 hours, or the org was moved."""

    problem = "The place is lost: replay id {replay_id}{subject} is no longer accepted"


class DeliveryLimitReached(CometdError, streams.DeliveryLimitReached):
    """The org's events of the last 24 hours are used up."""

    problem = "The org's daily event delivery allowance is used up{subject} ({message})"


class VersionRefused(CometdError):
    """The address names no version of the API that the org streams with."""

    problem = "The org does not stream with this version of the API ({message})"
    remedy = (
        "Replay needs 37.0 or newer; check that SFCDC_INSTANCE_URL is the org's My Domain, which no proxy rewrites."
    )


class RequestTooLarge(CometdError):
    """413: a request of more than 32,768 bytes."""

    problem = "The request {message}{subject} is larger than the Streaming API takes"
    remedy = "It takes 32,768 bytes, cookies apart: subscribe to fewer channels at once, or shorten their filters."


class ProtocolRefused(CometdError, streams.ProtocolRefused):
    """A message was malformed: a defect of this package."""

    problem = "The Streaming API calls {message}{subject} malformed"


class EventWithoutReplayId(CometdError):
    """An event that cannot be resumed after: the org streams without replay."""

    problem = "An event{subject} came without a replay id"
    remedy = "Take the channel out of SFCDC_CHANNELS: events without replay ids could be lost silently."


_BY_TEXT: tuple[tuple[str, type[CometdError]], ...] = (
    ("unknown client", SessionLost),
    ("has not completed handshake", SessionLost),
    ("has established a session", SessionLost),
    ("does not match the session's user", SessionLost),
    ("authentication invalid", TokenExpired),
    ("requires authentication", TokenExpired),
    ("you provided was invalid", ReplayIdRefused),
    ("total events daily limit", DeliveryLimitReached),
    ("concurrent user limit", TooManyClients),
    ("subscription limit exceeded", TooManyClients),
    ("simultaneous connections", TooManyClients),
    ("not enabled for streaming", UserNotEnabled),
    ("user not allowed to subscribe", ChannelNotPermitted),
    ("does not have access", ChannelNotPermitted),
    ("no access on channel", ChannelNotPermitted),
    ("restricted channel", ChannelNotPermitted),
    ("cannot create channel", ChannelNotPermitted),
    ("unable to create channel", ChannelNotFound),
    ("doesn't exist", ChannelNotFound),
    ("subscribe to does not exist", ChannelNotFound),
    ("unknown channel", ChannelNotFound),
    ("vary only by case", ChannelNotFound),
    ("do not exist on the topic", FilterRefused),
    ("filter of the subscription", FilterRefused),
    ("api version", VersionRefused),
    ("maximum request size", RequestTooLarge),
    ("too busy", ServerBusy),
    ("handshake denied", TokenExpired),
    ("invalid connection type", ProtocolRefused),
    ("channel name not specified", ProtocolRefused),
    ("must start with a leading", ProtocolRefused),
)
_BY_CODE: dict[int, type[CometdError]] = {401: TokenExpired, 413: RequestTooLarge, 503: ServerBusy}


def error_of(refusal: Refusal, *, reconnect: str = "retry", pause: float = 0.0) -> CometdError:
    """Return the error that a refusal stands for; `CometdUnavailable` for all that may pass with time.

    `reconnect` and `pause` (seconds) are the service's advice; it decides where the text is not known.
    """
    text = refusal.text.lower()
    found = next((kind for fragment, kind in _BY_TEXT if fragment in text), None) or _BY_CODE.get(refusal.code)
    if found is None:
        found = {"handshake": SessionLost, "none": EndedByService}.get(reconnect, CometdUnavailable)
    return found(refusal, pause)


def error_of_status(status: int, refusal: Refusal, pause: float = 0.0) -> CometdError:
    """Return the error of an answer by HTTP alone. A 403 without a Bayeux reason is a token, or a proxy's doing: a new
    token is tried once."""
    if status == 403 and not any(fragment in refusal.text.lower() for fragment, _ in _BY_TEXT):
        return TokenExpired(refusal, pause)
    return error_of(refusal, pause=pause)
