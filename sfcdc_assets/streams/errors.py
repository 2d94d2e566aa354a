"""What a transport refuses, in the words that landing acts on.

A transport raises subclasses that carry its own facts and say what to do. Landing distinguishes no more than these.
"""

from __future__ import annotations

from sfcdc_assets.errors import SfcdcError, TransientError


class TransportError(SfcdcError):
    """A transport could not do what was asked of it. The subscription may be read on after any of them."""


class TransportUnavailable(TransportError, TransientError):
    """The service or the way to it is down, or it sends its clients away for a while. It passes with time."""


class AuthenticationRefused(TransportError):
    """The credentials are not accepted, and fresh ones were not either."""


class ChannelNotFound(TransportError):
    """There is no such channel in the org."""


class ChannelNotPermitted(TransportError):
    """The user may not subscribe to the channel, or the org may not."""


class ReplayIdRefused(TransportError):
    """The replay id to resume after is not accepted: it is older than the retention, or the org was moved.

    Events may be missing. Landing answers with a snapshot of the channel's entities, never with a start at LATEST.
    """


class DeliveryLimitReached(TransportError):
    """The org's allowance of delivered events is used up: no early retry helps."""


class SchemaNotFound(TransportError):
    """The org does not give out this schema, to this user or at all."""
