"""A Bayeux client: one session, from its handshake to its end (docs.cometd.org, "The Bayeux Protocol").

It sends what it is given and never begins again by itself: whoever reads knows where to go on.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.streams.cometd.errors import BrokenAnswer, CometdUnavailable, SessionLost, VersionRefused, error_of
from sfcdc_assets.streams.cometd.http import MOST_BYTES, CometdHttp, Message
from sfcdc_assets.streams.cometd.replies import Advice, Refusal, refusal_of
from sfcdc_assets.streams.delivered_event import ReplayPreset, ReplayStart

ANSWER_SECONDS = 20.0
"""What a message may take that is answered at once."""
BEYOND_TIMEOUT_SECONDS = 10.0
"""How much longer than the service holds a connect its answer is waited for: two minutes in all."""
DISCONNECT_SECONDS = 5.0

HANDSHAKE, CONNECT, DISCONNECT = "/meta/handshake", "/meta/connect", "/meta/disconnect"
SUBSCRIBE = "/meta/subscribe"
_VERSION = "1.0"
_ENVELOPE = 200
"""Bytes of a message beside its body, reckoned generously: its channel, its id, the client's id."""
_PRESETS = {ReplayPreset.LATEST: -1, ReplayPreset.EARLIEST: -2}


@dataclass(frozen=True)
class Connected:
    """The answer to a connect: its events, in the order of the stream, and for how many seconds it was held."""

    events: tuple[Message, ...] = ()
    held: float = 0.0


@dataclass
class BayeuxClient:
    """One session. Its calls are made one after another, but for `disconnect`, which ends a connect that is held."""

    http: CometdHttp
    clock: Clock
    advice: Advice = field(default_factory=Advice)
    client_id: str | None = None
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _events: list[Message] = field(default_factory=list)
    _has_connected: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def longest_answer(self) -> float:
        """Seconds that the answer to a connect is waited for."""
        return self.advice.timeout + BEYOND_TIMEOUT_SECONDS

    def handshake(self) -> None:
        """Begin the session. Raises `CometdError`: `VersionRefused` too, for a service that does not replay."""
        request = {
            "version": _VERSION,
            "minimumVersion": _VERSION,
            "supportedConnectionTypes": ["long-polling"],
            "ext": {"replay": True},
            "advice": {"timeout": round(self.advice.timeout * 1000), "interval": 0},
        }
        (reply,) = self._send(HANDSHAKE, [request])
        self._check(reply, HANDSHAKE)
        ext = reply.get("ext")
        if not isinstance(reply.get("clientId"), str):
            raise BrokenAnswer(Refusal(HANDSHAKE, text="it gives no clientId"))
        if not isinstance(ext, Mapping) or ext.get("replay") is not True:
            raise VersionRefused(Refusal(HANDSHAKE, text="it does not offer to replay events"))
        self.client_id = reply["clientId"]

    def subscribe(self, starts: Mapping[str, ReplayStart]) -> None:
        """Subscribe to all these channels, each from its place, in as few requests as may be. Raises `CometdError` for
        the first that is refused."""
        requests = [
            {"subscription": channel, "ext": {"replay": {replay_key(channel): replay_value(start)}}}
            for channel, start in starts.items()
        ]
        for some in _that_fit(requests):
            for request, reply in zip(some, self._send(SUBSCRIBE, some), strict=True):
                channel = str(request["subscription"])
                self._check(reply, SUBSCRIBE, channel, str(replay_value(starts[channel])))

    def connect(self) -> Connected:
        """Wait for events, as long as the service holds the request: the first connect of a session it answers at once.

        Raises `CometdError`. Events that came with other answers come with this one.
        """
        request: dict[str, Any] = {"connectionType": "long-polling"}
        if not self._has_connected:
            request["advice"] = {"timeout": 0}
        began = self.clock.monotonic()
        (reply,) = self._send(CONNECT, [request], self.longest_answer)
        held = self.clock.monotonic() - began
        self._check(reply, CONNECT)
        self._has_connected = True
        with self._lock:
            events, self._events = tuple(self._events), []
        return Connected(events, held)

    def disconnect(self) -> None:
        """End the session, so that the service forgets it at once. Raises `CometdError`."""
        client_id, self.client_id = self.client_id, None
        if client_id is not None:
            self._send(DISCONNECT, [{"clientId": client_id}], DISCONNECT_SECONDS)

    def leave(self, error: BaseException | None = None) -> None:
        """End the session, whatever becomes of that, and close its connections. One that ends without a word counts
        against the org's clients for as long as the service remembers it. A service that did not answer is not told,
        nor one that has forgotten the session: `error`, with which it ends."""
        is_silent = isinstance(error, CometdUnavailable) and not error.refusal.code
        is_silent = isinstance(error, SessionLost) or (is_silent and not isinstance(error, BrokenAnswer))
        try:
            if not is_silent:
                with suppress(SfcdcError):
                    self.disconnect()
        finally:
            self.http.close()

    def _send(
        self, channel: str, bodies: Sequence[Mapping[str, Any]], seconds: float = ANSWER_SECONDS
    ) -> list[Message]:
        """Return the replies to these messages, in their order; events among the answer are kept for the next
        connect."""
        own = {} if self.client_id is None else {"clientId": self.client_id}
        messages = [{"channel": channel, "id": str(next(self._ids)), **own, **body} for body in bodies]
        subject = str(bodies[0].get("subscription", ""))
        replies: dict[str, Message] = {}
        unnumbered: list[Message] = []
        for message in self.http.post(messages, seconds, subject=subject):
            sent_on = str(message.get("channel", ""))
            if sent_on == channel and "successful" in message:
                if "id" in message:
                    replies[str(message["id"])] = message
                else:
                    unnumbered.append(message)
            elif not sent_on.startswith("/meta/") and ("data" in message or "successful" not in message):
                with self._lock:
                    self._events.append(message)
        # A service that has forgotten its client may answer without the id, and to all at once.
        found = [replies.get(message["id"]) or next(iter(unnumbered), None) for message in messages]
        if not all(found):
            raise BrokenAnswer(Refusal(channel, subject, 0, "there is no reply in it"))
        return [reply for reply in found if reply is not None]

    def _check(self, reply: Message, message: str, subject: str = "", replay_id: str = "") -> None:
        advice = self.advice.after(reply)
        if reply.get("successful") is True:
            self.advice = advice
            return
        refusal = refusal_of(reply, message, subject, replay_id)
        # The advice of a refusal is for this refusal only.
        given = Advice(reconnect="").after(reply)
        raise error_of(refusal, reconnect=given.reconnect or "retry", pause=given.interval)


def replay_key(channel: str) -> str:
    """Return the channel without its filter: what `ext.replay` knows it by."""
    return channel.partition("?")[0]


def replay_value(start: ReplayStart) -> int | str:
    """-1 for new events, -2 for all that are kept, or the id to go on after: a number, as ids of this protocol are."""
    if start.preset is not ReplayPreset.CUSTOM:
        return _PRESETS[start.preset]
    text = start.replay_id.decode("ascii", "replace")
    return int(text) if text.isdigit() else text


def _that_fit(requests: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the messages in groups of which each fits a request."""
    some: list[Mapping[str, Any]] = []
    size = 0
    for request in requests:
        length = len(json.dumps(request)) + _ENVELOPE
        if some and size + length > MOST_BYTES:
            yield some
            some, size = [], 0
        some.append(request)
        size += length
    if some:
        yield some
