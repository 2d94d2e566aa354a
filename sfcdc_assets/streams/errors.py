"""What a transport refuses, in the words that landing acts on.

A transport raises subclasses that carry its own facts and name the problem in its own words; the remedy is here where
it is the same whatever protocol brings the refusal. Landing distinguishes no more than these.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from sfcdc_assets.runtime.errors import SfcdcError, TransientError


class TransportError(SfcdcError):
    """A transport could not do what was asked of it. The subscription may be read on after any of them."""

    remedy = "Try again; if it stays, give this text to Salesforce support."
    remedies: ClassVar[Mapping[str, str]] = {}
    """Those of channels of one kind, by the prefix of their names."""

    @classmethod
    def remedy_for(cls, channel: str) -> str:
        """Return what to do where the refusal is about a channel: what the nearest class says that says anything."""
        for each in cls.__mro__:
            own = vars(each)
            for prefix, text in own.get("remedies", {}).items():
                if channel.startswith(prefix):
                    return str(text)
            if "remedy" in own:
                return str(own["remedy"])
        return cls.remedy


class TransportUnavailable(TransportError, TransientError):
    """The service or the way to it is down, or it sends its clients away for a while. It passes with time.

    `pause`: seconds to wait before the next attempt at least. `ends_take`: the next attempt is made by another `take`,
    however patient this one is.
    """

    pause = 0.0
    ends_take = False


class AuthenticationRefused(TransportError):
    """The credentials are not accepted, and fresh ones were not either."""


class TokenExpired(AuthenticationRefused):
    """The token is not accepted, and a new one may be: this is tried once before `final` is raised."""

    @abstractmethod
    def final(self) -> AuthenticationRefused:
        """Return the same refusal, of a token that was new."""


class ChannelNotFound(TransportError):
    """There is no such channel in the org."""

    remedy = (
        "Correct SFCDC_CHANNELS (names are case-sensitive: /data/ChangeEvents, /data/AccountChangeEvent), or switch on "
        "Change Data Capture for the object in Setup."
    )
    remedies: ClassVar[Mapping[str, str]] = {
        "/topic/": "Correct SFCDC_CHANNELS (names are case-sensitive, and fields of a filter have to be in the topic's "
        "query), or create the topic, or activate it: `sfcdc topics apply`.",
        "/u/": "Correct SFCDC_CHANNELS (names are case-sensitive), or create the channel: Setup, Streaming Channels.",
        "/event/": "Correct SFCDC_CHANNELS (names are case-sensitive: /event/Order__e), or define the event in Setup, "
        "Platform Events; events of standard volume are read over CometD.",
    }


class ChannelNotPermitted(TransportError):
    """The user may not subscribe to the channel, or the org may not."""

    remedy = (
        "Give the integration user the permission View All of the entity (View All Data for /data/ChangeEvents), or "
        "take the channel out of SFCDC_CHANNELS."
    )
    remedies: ClassVar[Mapping[str, str]] = {
        "/topic/": "Give the integration user Read on Push Topics, on the object of the topic's query and on each "
        "field of its WHERE clause (Setup, Permission Sets), or take the channel out of SFCDC_CHANNELS.",
        "/u/": "Give the integration user Read on Streaming Channels (Setup, Permission Sets), share the channel with "
        "it, or take the channel out of SFCDC_CHANNELS.",
        "/event/": "Give the integration user Read on the platform event (Setup, Permission Sets), or take the channel "
        "out of SFCDC_CHANNELS.",
    }


class ReplayIdRefused(TransportError):
    """The replay id to resume after is not accepted: it is older than the retention, or the org was moved.

    Events may be missing. Landing answers with a snapshot of the channel's entities, never with a start at LATEST.
    """

    remedy = (
        "Events since then cannot be had from the stream; take a new snapshot of the channel's entities. "
        "Nothing was skipped silently."
    )
    remedies: ClassVar[Mapping[str, str]] = {
        "/topic/": "Notifications since then cannot be had from the stream; the next run of `check_topics` asks the "
        "topic's query instead. Nothing was skipped silently.",
        "/u/": "Events since then cannot be had from the stream. Nothing was skipped silently.",
        "/event/": "Events since then cannot be had from the stream. Nothing was skipped silently.",
    }


class DeliveryLimitReached(TransportError):
    """The org's allowance of delivered events is used up: no early retry helps."""

    remedy = "Wait: the allowance is per 24 hours, and events are kept for 72. Do not retry at once."


class ProtocolRefused(TransportError):
    """A request was malformed: a defect of this package."""

    remedy = "This is a defect of this package; please report it with this text."


class SchemaNotFound(TransportError):
    """The org does not give out this schema, to this user or at all."""
