"""What a transport has to do for landing: subscribe to channels, and give the schemas that events name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart
from sfcdc_assets.streams.errors import TokenExpired
from sfcdc_assets.streams.resume import ResumePoint

T = TypeVar("T")

SILENCE_SECONDS = 300.0
"""No stream that works is silent for longer. Pub/Sub sends an empty response within 270 s (Pub/Sub API guide, Pull
Subscription and Flow Control), CometD ends a connect within 110 s (Streaming API guide, Bayeux Protocol, CometD, and
Long Polling). A transport begins a call again that is silent for longer, and may notice sooner."""


@dataclass(frozen=True, slots=True)
class Received:
    """One response: its events that were not taken before, in stream order; when it arrived (epoch ms, UTC).

    `nothing_more` says that the service told there is no event after the last one delivered. That nothing came is not
    enough: a transport whose service never says it leaves `nothing_more` false. `repeats`: how many events came with it
    that had been taken before, each of which is charged once more.
    """

    events: tuple[DeliveredEvent, ...]
    nothing_more: bool
    at_ms: int
    repeats: int = 0


class Subscription(Protocol):
    """The subscription to one channel, for one thread at a time; closed when it is no longer read.

    The first `take` begins the call. What breaks is mended by resuming after what was taken, so that each event is
    taken once over any number of interrupted calls. What cannot be mended is raised, and a refused replay id is never
    answered with LATEST.
    """

    @property
    def resume_point(self) -> ResumePoint:
        """Where to resume after all that was taken."""

    def take(self, seconds: float) -> Received | None:
        """Return the next response, or None after `seconds` of silence. Raises `TransportError`."""

    def has_arrived(self, seconds: float) -> bool:
        """Wait, beside the thread that takes, until a response can be taken; False after `seconds` of silence, and
        where no call is open: none is begun for it."""

    def top_up(self, *, sparingly: bool = False) -> None:
        """Ask for more events, where the protocol wants to be asked; `sparingly`: only when few are left to come."""

    def landed(self, point: ResumePoint) -> None:
        """Everything up to this point is durable: a protocol whose service keeps a place may move it there."""

    @property
    def outstanding(self) -> int:
        """Events that may be on their way: asked for, or pushed without asking, and not taken yet."""

    @property
    def is_open(self) -> bool:
        """Whether a call was begun and not ended by either side, as far as is known."""

    @property
    def responses(self) -> int:
        """Responses that have arrived on the open call, those not taken yet included."""

    @property
    def has_answered(self) -> bool:
        """Whether the open call has brought a response: that a call could be made says nothing about the stream."""

    def open_for(self) -> float:
        """Seconds since the open call was begun; 0 without one."""

    def quiet_for(self) -> float | None:
        """Seconds since the open call last brought events, all of which were taken; None if it has not answered. Time
        in which the service could bring none, because it was asked for none, does not count: that silence is ours."""

    def close(self) -> None:
        """End the call. What had arrived and was not taken comes again with the next one."""


class Transport(Protocol):
    """A connection to the org's streams by one protocol. Nothing is connected until it is used."""

    @property
    def name(self) -> str:
        """The protocol's, as a checkpoint keeps it: replay ids of one protocol mean nothing to another."""

    def subscribe(self, channel: str, begun: ReplayStart, resume: ResumePoint) -> Subscription:
        """Return a subscription that goes on at `resume`; `begun` is where the stream was begun when nothing was
        known."""

    def schema(self, schema_id: str) -> str:
        """Return the text of a schema that an event names. Raises `SchemaNotFound` and other `TransportError`s."""

    def schemas(self, schema_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the texts of many, several asked for at a time; those that cannot be had now are left out."""

    def newest_schema_id(self, entity: str) -> str:
        """Return the id of the schema that the entity's next change event will have. Raises `TransportError`."""

    def check_channel(self, channel: str, seconds: float) -> None:
        """Ask once, within so many seconds, whether the channel may be subscribed to: no event is delivered for it.
        Raises `ChannelNotFound`, `ChannelNotPermitted`, `AuthenticationRefused`, `TransportUnavailable`."""

    def close(self) -> None:
        """End the connection and the calls on it. The next use connects again."""


def with_a_token_that_counts(ask: Callable[[], T], refresh: Callable[[], object]) -> T:
    """Return the answer, asked for again with a fresh token where the first one is out of date. Raises what `ask`
    raises; `AuthenticationRefused` where the fresh token is refused too."""
    try:
        return ask()
    except TokenExpired:
        refresh()
    try:
        return ask()
    except TokenExpired as error:
        raise error.final() from None
