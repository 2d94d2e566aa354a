"""The Streaming API of the emulated org: Bayeux messages in, Bayeux messages out.

A request is answered in a thread of its own, which a connect holds until there is something to say. It waits at the
bus's condition, which tells of new events, of a clock that was moved and of armed faults, so nothing here polls.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.emulator.cometd import refusals
from sfcdc_assets.emulator.cometd.channels import StreamingTopics
from sfcdc_assets.emulator.cometd.client_session import COOKIE, ChannelSubscription, ClientSession, CometdTiming
from sfcdc_assets.emulator.cometd.refusals import BayeuxRefusal, BayeuxRefused
from sfcdc_assets.emulator.cometd.sources import MOST_EVENTS, NEW, ChannelSource, Notifications
from sfcdc_assets.emulator.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.event_bus import EventBus
from sfcdc_assets.emulator.event_bus_errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.rpc_call import Sessions

HANDSHAKE, CONNECT, DISCONNECT = "/meta/handshake", "/meta/connect", "/meta/disconnect"
SUBSCRIBE, UNSUBSCRIBE = "/meta/subscribe", "/meta/unsubscribe"
_HELD_FAULTS = (
    Fault.COMETD_UNKNOWN_CLIENT,
    Fault.COMETD_UNAUTHORIZED,
    Fault.COMETD_EVENT_LIMIT,
    Fault.COMETD_SILENCE,
    Fault.COMETD_RESET,
)
_NEVER = 2**62
"""Until when a silent connect is held (epoch ms)."""

Message = Mapping[str, Any]


@dataclass
class CometdCall:
    """One request. `replays`: whether the address is one that replays events; `is_gone`: the client has hung up."""

    messages: Sequence[Message]
    has_token: bool
    user_id: str | None
    cookie: str | None
    replays: bool = True
    refusal: BayeuxRefusal | None = None
    """For all messages: the address names no version, or one that is not served."""
    is_gone: threading.Event = field(default_factory=threading.Event)


@dataclass
class CometdAnswer:
    """Its answer. `cookie` is to be set; `is_cut` ends it in the middle, `is_reset` before it began."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    cookie: str | None = None
    is_cut: bool = False
    is_reset: bool = False


class CometdService:
    """Answers requests from any thread. `stop` ends every connect that is held."""

    def __init__(
        self,
        org: EmulatedOrg,
        bus: EventBus,
        *,
        sessions: Sessions,
        meter: DeliveryMeter,
        timing: CometdTiming | None = None,
    ) -> None:
        self.bus = bus
        self.timing = timing or CometdTiming()
        self.faults = bus.faults
        self._org = org
        self._sessions = sessions
        self._meter = meter
        self._clients: dict[str, ClientSession] = {}
        self._lock = threading.Lock()
        self._is_stopping = False
        self.topics = StreamingTopics(org, bus)
        """Channels, and the records of those that are no change events."""
        self.answers_sent = 0
        """Answers to connects that had events, or that were held for their whole time."""
        self.faults.on_armed(bus.wake)

    @property
    def org(self) -> EmulatedOrg:
        """Whose streams these are."""
        return self._org

    @property
    def open_sessions(self) -> int:
        """Sessions that are not forgotten."""
        return len(self._known())

    @property
    def held_connects(self) -> int:
        """Connects that wait for an event now."""
        return sum(session.is_held for session in self._known())

    @property
    def subscribed_clients(self) -> int:
        """Sessions with a subscription: from then on they miss no event."""
        return sum(bool(session.subscriptions) for session in self._known())

    def users_of(self, source: str) -> frozenset[str]:
        """Users who are subscribed to a PushTopic or generic channel now, by the id of its record."""
        return frozenset(
            session.user_id
            for session in self._known()
            for each in tuple(session.subscriptions.values())
            if isinstance(each.source, Notifications) and each.source.source == source
        )

    def next_due(self) -> int | None:
        """When the next connect is answered if nothing else happens (epoch ms by the org's clock); None without one
        that is held. A time that is past means that something is being done."""
        with self.bus.changed:
            due = [
                0 if each.is_at_work or self._has_more(each) else each.held_until
                for each in self._known()
                if each.is_held
            ]
        return min(due, default=None)

    def user_of(self, token: str) -> str | None:
        """Whose token it is."""
        return self._sessions.user_of(token)

    def start(self) -> None:
        """Serve again after a stop; sessions of before are forgotten."""
        self._is_stopping = False

    def stop(self) -> None:
        """Answer every connect that is held, and forget all sessions."""
        self._is_stopping = True
        with self._lock:
            self._clients.clear()
        self.bus.wake()

    def answer(self, call: CometdCall) -> CometdAnswer:
        """Answer a request's messages, in their order."""
        answer = CometdAnswer()
        for message in call.messages:
            channel = str(message.get("channel", ""))
            try:
                parts = self._handled(call, answer, channel, message)
            except BayeuxRefused as refused:
                refusal = refused.refusal
                if channel == HANDSHAKE and refusal.advice == refusals.NOT_AGAIN:
                    refusal = refusals.handshake_denied(refusal)
                parts = [_reply(message, **refusal.reply())]
            answer.messages += parts
        return answer

    def _handled(self, call: CometdCall, answer: CometdAnswer, channel: str, message: Message) -> list[dict[str, Any]]:
        self._check_the_caller(call, channel)
        if channel == HANDSHAKE:
            return [self._handshake(call, answer, message)]
        session = self._session(call, channel, message)
        if channel == CONNECT:
            return self._connect(call, answer, session, message)
        session.heard_at = self._org.clock()
        if channel == SUBSCRIBE:
            return [self._subscribe(session, message)]
        if channel == UNSUBSCRIBE:
            session.subscriptions.pop(str(message.get("subscription")), None)
            return [_reply(message, clientId=session.client_id, subscription=message.get("subscription"))]
        if channel == DISCONNECT:
            self._forget(session)
            return [_reply(message, clientId=session.client_id)]
        raise BayeuxRefused(refusals.RESTRICTED_CHANNEL)

    def _check_the_caller(self, call: CometdCall, channel: str) -> None:
        if call.refusal is not None:
            raise BayeuxRefused(call.refusal)
        if not channel.startswith("/"):
            raise BayeuxRefused(refusals.MALFORMED)
        if self.faults.take(Fault.COMETD_BUSY):
            raise BayeuxRefused(refusals.TOO_BUSY)
        if not call.has_token:
            raise BayeuxRefused(refusals.NO_TOKEN)
        if call.user_id is None or (channel != CONNECT and self.faults.take(Fault.COMETD_UNAUTHORIZED)):
            raise BayeuxRefused(refusals.INVALID_TOKEN)

    def _handshake(self, call: CometdCall, answer: CometdAnswer, message: Message) -> dict[str, Any]:
        kinds = message.get("supportedConnectionTypes")
        if not isinstance(kinds, list) or "long-polling" not in kinds:
            raise BayeuxRefused(refusals.invalid_connection_type(kinds))
        session = ClientSession(
            secrets.token_hex(12), secrets.token_hex(16), str(call.user_id), call.replays, self._org.clock()
        )
        with self._lock:
            self._clients[session.client_id] = session
        answer.cookie = session.cookie
        return _reply(
            message,
            clientId=session.client_id,
            version="1.0",
            minimumVersion="1.0",
            supportedConnectionTypes=["long-polling"],
            reestablish=False,
            ext={"replay": True, "payload.format": True} if call.replays else {"payload.format": True},
        )

    def _session(self, call: CometdCall, channel: str, message: Message) -> ClientSession:
        client_id = message.get("clientId")
        if not isinstance(client_id, str) or not client_id:
            raise BayeuxRefused(refusals.NO_HANDSHAKE)
        session = next((each for each in self._known() if each.client_id == client_id), None)
        if session is None:
            raise BayeuxRefused(refusals.UNKNOWN_CLIENT)
        loses = channel in (CONNECT, SUBSCRIBE) and self.faults.take(Fault.COMETD_LOST_COOKIE)
        if loses or call.cookie != session.cookie:
            raise BayeuxRefused(refusals.no_cookie(client_id, COOKIE))
        if call.user_id != session.user_id:
            raise BayeuxRefused(refusals.ANOTHER_USER)
        return session

    def _subscribe(self, session: ClientSession, message: Message) -> dict[str, Any]:
        channel = message.get("subscription")
        if not isinstance(channel, str) or not channel.strip():
            raise BayeuxRefused(refusals.NO_CHANNEL_NAME)
        if not channel.startswith("/"):
            raise BayeuxRefused(refusals.NO_LEADING_SLASH)
        source = self.topics.source(channel)
        others = sum(bool(each.subscriptions) for each in self._known() if each is not session)
        most = self._org.settings.concurrent_streaming_clients
        if others >= most or self.faults.take(Fault.COMETD_CLIENT_LIMIT):
            raise BayeuxRefused(refusals.TOO_MANY_CLIENTS)
        place = self._start(session, source, channel, message)
        session.subscriptions[channel] = ChannelSubscription(source, place)
        self.bus.wake()
        return _reply(message, clientId=session.client_id, subscription=channel)

    def _start(self, session: ClientSession, source: ChannelSource, channel: str, message: Message) -> int:
        """The number to read on after. The map of places knows a channel without its filter."""
        ext = message.get("ext")
        wanted = ext.get("replay") if isinstance(ext, Mapping) and session.replays else None
        places = wanted if isinstance(wanted, Mapping) else {}
        place = places.get(channel, places.get(channel.partition("?")[0], NEW))
        try:
            return source.start(int(place))
        except (ReplayIdCorruptedError, ValueError, TypeError, OverflowError):
            raise BayeuxRefused(refusals.invalid_replay_id(place)) from None

    def _connect(
        self, call: CometdCall, answer: CometdAnswer, session: ClientSession, message: Message
    ) -> list[dict[str, Any]]:
        """Hold the request until there is an event, its time is up, or the session ends. The first connect of a session
        is answered at once, as is one whose client asks for it."""
        if message.get("connectionType") != "long-polling":
            raise BayeuxRefused(refusals.invalid_connection_type(message.get("connectionType")))
        with self._lock:
            session.connects += 1
            number, session.is_held, session.is_at_work = session.connects, True, True
        self.bus.wake()
        advice = message.get("advice")
        asked = advice.get("timeout") if isinstance(advice, Mapping) else None
        seconds = 0.0 if number == 1 or asked == 0 else self.timing.timeout
        until = self._org.clock() + round(seconds * 1000)
        try:
            found, was_held = self._wait(call, answer, session, number, until)
        finally:
            with self._lock:
                session.heard_at = self._org.clock()
                session.is_held = session.is_held and session.connects != number
        if (found or (was_held and seconds)) and not (answer.is_cut or answer.is_reset):
            self.answers_sent += 1
        more = {"advice": self.timing.advice()} if number == 1 or advice is not None else {}
        return [*found, _reply(message, clientId=session.client_id, **more)]

    def _wait(
        self, call: CometdCall, answer: CometdAnswer, session: ClientSession, number: int, until: int
    ) -> tuple[list[dict[str, Any]], bool]:
        """The events that end a connect, and whether it was held until its time was up."""

        def is_over() -> bool:
            return self._is_stopping or session.is_over or call.is_gone.is_set() or session.connects != number

        session.held_until = until
        while True:
            with self.bus.changed:
                session.is_at_work = False
                while not (is_over() or self._has_more(session)) and (left := until - self._org.clock()) > 0:
                    self.bus.changed.wait(left / 1000)
                session.is_at_work = True
            if is_over():
                return [], False
            if self._commit_faults(answer, session):
                with self.bus.changed:
                    session.held_until, session.is_at_work = _NEVER, False
                    self.bus.changed.wait_for(is_over)
                return [], False
            found = self._read(session)
            if found and self.faults.take(Fault.COMETD_CUT):
                answer.is_cut = True
            if found or answer.is_reset or self._org.clock() >= until:
                return found, not found and not answer.is_reset

    def _has_more(self, session: ClientSession) -> bool:
        """Whether a connect of the session has something to do now."""
        if session.held_until == _NEVER:
            return False
        return any(
            each.source.last_number > each.read_through for each in tuple(session.subscriptions.values())
        ) or any(self.faults.armed(fault) for fault in _HELD_FAULTS)

    def _commit_faults(self, answer: CometdAnswer, session: ClientSession) -> bool:
        """Commit an armed fault; True if the connect falls silent."""
        for fault, refusal in (
            (Fault.COMETD_UNKNOWN_CLIENT, refusals.UNKNOWN_CLIENT),
            (Fault.COMETD_UNAUTHORIZED, refusals.INVALID_TOKEN),
            (Fault.COMETD_EVENT_LIMIT, refusals.TOO_MANY_EVENTS),
        ):
            if self.faults.take(fault):
                self._forget(session)
                raise BayeuxRefused(refusal)
        answer.is_reset = self.faults.take(Fault.COMETD_RESET)
        return not answer.is_reset and self.faults.take(Fault.COMETD_SILENCE)

    def _read(self, session: ClientSession) -> list[dict[str, Any]]:
        """What the session's channels have, each in its order, those of change events in the order of the bus."""
        found: list[tuple[int, dict[str, Any]]] = []
        for channel, subscription in tuple(session.subscriptions.items()):
            allowance = self._org.settings.daily_event_deliveries - self._meter.in_last_24_hours()
            most = max(1, min(MOST_EVENTS, allowance))
            part = subscription.source.read(channel, session.user_id, subscription.read_through, most)
            if part.metered:
                if allowance <= 0:
                    self._forget(session)
                    raise BayeuxRefused(refusals.TOO_MANY_EVENTS)
                self._meter.delivered(part.metered)
            subscription.read_through = part.through
            found += part.messages
        return [message for _, message in sorted(found, key=lambda each: each[0])]

    def _known(self) -> list[ClientSession]:
        """The sessions; those whose clients stayed away are forgotten now."""
        now = self._org.clock()
        with self._lock:
            away = [each for each in self._clients.values() if each.is_forgotten(now, self.timing.reconnect)]
            for each in away:
                each.is_over = True
                del self._clients[each.client_id]
            return list(self._clients.values())

    def _forget(self, session: ClientSession) -> None:
        session.is_over = True
        with self._lock:
            self._clients.pop(session.client_id, None)
        self.bus.wake()


def _reply(message: Message, **values: Any) -> dict[str, Any]:
    """A reply has the message's channel and id."""
    reply = {"channel": message.get("channel"), "successful": True, **values}
    return reply | {"id": message["id"]} if "id" in message else reply
