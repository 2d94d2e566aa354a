"""A channel's subscription over CometD: a session of its own, begun again by a new handshake.

That a subscription was accepted is no answer of the stream: old events are replayed after it, when the service likes.
The first event is one, or a connect that was held for its whole time and brought none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.foreign_text import unicode_text
from sfcdc_assets.streams.cometd.client import CONNECT, BayeuxClient, Connected
from sfcdc_assets.streams.cometd.connection import CometdConnection
from sfcdc_assets.streams.cometd.errors import CometdUnavailable, EndedByService, EventWithoutReplayId, SessionLost
from sfcdc_assets.streams.cometd.replies import RETRY, Refusal
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart, with_replay_ids
from sfcdc_assets.streams.open_call import Arrival, OpenCall
from sfcdc_assets.streams.reconnecting_subscription import ReconnectingSubscription

_CHANGE_HEADER = "ChangeEventHeader"


def delivered_events(messages: Sequence[Mapping[str, Any]], before: bytes, at_ms: int) -> Sequence[DeliveredEvent]:
    """Return the events of an answer that arrived at `at_ms`; `before`: the replay id of the event before them, empty
    where none is known. One that comes without a replay id shares that of an event around it (`with_replay_ids`).
    Raises `EventWithoutReplayId` where there is none around it: the channel may be one that does not replay."""
    events = with_replay_ids([delivered_event(message, at_ms) for message in messages], before)
    if not all(event.replay_id for event in events):
        subject = str(messages[0].get("channel", ""))
        raise EventWithoutReplayId(Refusal("message", subject, 0, "its event has no replayId"))
    return events


def delivered_event(message: Mapping[str, Any], at_ms: int) -> DeliveredEvent:
    """Return the event of a data message that arrived at `at_ms`; its replay id is empty where it has no usable one."""
    data = message.get("data")
    fields = data if isinstance(data, Mapping) else {}
    about = fields.get("event")
    replay_id = about.get("replayId") if isinstance(about, Mapping) else None
    uuid = about.get("EventUuid") if isinstance(about, Mapping) else None
    body = fields.get("payload")
    if not isinstance(body, Mapping) or "sobject" in fields:
        # A PushTopic's notification, or a text that was pushed: what there is of an event is around it.
        body = data
    payload = _in_order(body)
    is_change = isinstance(body, Mapping) and _CHANGE_HEADER in body
    return DeliveredEvent(
        unicode_text(uuid)
        if isinstance(uuid, str) and uuid
        else _derived_id(payload if is_change else _in_order([replay_id, body])),
        unicode_text(str(fields.get("schema") or "")),
        payload,
        _replay_id(replay_id),
        at_ms,
    )


def _replay_id(value: object) -> bytes:
    """Return the text of a replay id; none for what is no id. -1 and -2 would have the stream begin elsewhere."""
    text = unicode_text(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return b"" if text.startswith("-") else text.encode()


def _in_order(payload: object) -> bytes:
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def _derived_id(payload: bytes) -> str:
    """Return an id for an event whose service gives none. A change event's header has the transaction, the place in it
    and the records, so that no two have the same contents unless one is a copy of the other; what else is sent may be
    sent again in the same words, and its replay id distinguishes it."""
    return str(uuid.UUID(bytes=blake2b(payload, digest_size=16).digest()))


HELD_SHARE = 0.9
"""A connect that was held for this share of its time and brought no event says that there is none: one that is there
ends a connect at once."""


class LongPoll(OpenCall):
    """A session whose subscription was accepted. Close it, also after an error.

    `held`: a connect was held and answered in good order, with events or without.
    """

    is_given_up_at_once = True
    _close_seconds = 2.0

    def __init__(self, client: BayeuxClient, channel: str, begun_after: bytes, clock: Clock) -> None:
        """`begun_after`: the replay id that it was begun after, or none."""
        super().__init__(clock)
        self._client = client
        self._last_replay_id = begun_after
        self._begin_to_read(f"long poll {channel}")

    @property
    def longest_silence(self) -> float:
        """Seconds after which a connect that was not answered will not be."""
        return self._client.longest_answer

    def close(self) -> None:
        """See `OpenCall.close`: the thread ends when its request does."""
        super().close()
        self._client.http.close()

    def _end(self) -> None:
        self._client.leave(self._error)

    def _read(self) -> CometdUnavailable | None:
        while not self._closed:
            self.last_sign = self._clock.monotonic()
            if not self._note(self._client.connect()):
                return None
            if (ended := self._obey_advice()) is not None:
                return ended
        return None

    def _note(self, connected: Connected) -> bool:
        """Hand over what was brought; False if the session was closed."""
        at, at_ms = self._clock.monotonic(), self._clock.now_ms()
        self.last_sign = at
        was_held = connected.held >= self._client.advice.timeout * HELD_SHARE > 0
        self.held = self.held or was_held
        events = delivered_events(connected.events, self._last_replay_id, at_ms)
        if not events and not was_held:
            return not self._closed
        self._last_replay_id = events[-1].replay_id if events else self._last_replay_id
        size = sum(len(event.payload) for event in events)
        return self._put(Arrival(events, not events, size, at, at_ms))

    def _obey_advice(self) -> CometdUnavailable | None:
        """Wait as long as the service asks; the end of the session where it wants no further connect."""
        advice = self._client.advice
        if advice.reconnect != RETRY:
            kind = SessionLost if advice.reconnect == "handshake" else EndedByService
            return kind(Refusal(CONNECT, text=f"the advice is {advice.reconnect}"), advice.interval)
        if advice.interval:
            with self._changed:
                self._clock.wait_for(self._changed, lambda: self._closed, advice.interval)
        return None


class CometdSubscription(ReconnectingSubscription[LongPoll]):
    """The subscription to one channel, from where `progress` is on (see `streams.transport.Subscription`)."""

    _connection: CometdConnection

    def top_up(self, *, sparingly: bool = False) -> None:
        """Request nothing: the service pushes."""

    @property
    def outstanding(self) -> int:
        """1 while a session is open, as events may be on their way at any time."""
        return int(self.is_open)

    def _begin(self, start: ReplayStart) -> LongPoll:
        client = self._connection.client(self._clock)
        try:
            client.handshake()
            client.subscribe({self._channel: start})
        except BaseException as error:
            client.leave(error)
            raise
        return LongPoll(client, self._channel, start.replay_id, self._clock)

    def _silent(self, seconds: float) -> CometdUnavailable:
        return CometdUnavailable(Refusal(CONNECT, self._channel, 0, f"no answer for {seconds:.0f} s"))
