"""The Streaming API of the emulated org: Bayeux messages in, Bayeux messages out."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from sfcdc_assets.emulator.cometd import refusals
from sfcdc_assets.emulator.cometd.allowances import Allowances
from sfcdc_assets.emulator.cometd.channels import StreamingTopics
from sfcdc_assets.emulator.cometd.client_session import COOKIE, ChannelSubscription, ClientSession, CometdTiming
from sfcdc_assets.emulator.cometd.client_sessions import ClientSessions
from sfcdc_assets.emulator.cometd.held_connects import HeldConnects
from sfcdc_assets.emulator.cometd.messages import (
    CONNECT,
    DISCONNECT,
    HANDSHAKE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    CometdAnswer,
    CometdCall,
    Message,
    reply_to,
)
from sfcdc_assets.emulator.cometd.refusals import BayeuxRefused
from sfcdc_assets.emulator.cometd.sources import NEW, ChannelSource, Notifications
from sfcdc_assets.emulator.errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.events.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.rpc_call import Sessions


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
        self._clients = ClientSessions(org.clock, self.timing.reconnect)
        self.allowances = Allowances(org, meter)
        self._connects = HeldConnects(org, bus, self._clients, self.allowances, self.timing)
        self.topics = StreamingTopics(org, bus)
        """Channels, and the records of those that are no change events."""
        self.faults.on_armed(bus.wake)

    @property
    def org(self) -> EmulatedOrg:
        """Whose streams these are."""
        return self._org

    @property
    def open_sessions(self) -> int:
        """Sessions that are not forgotten."""
        return len(self._clients.all())

    @property
    def sessions(self) -> list[ClientSession]:
        """Sessions that are not forgotten, the oldest first."""
        return self._clients.all()

    @property
    def held_connects(self) -> int:
        """Connects that wait for an event now."""
        return sum(session.is_held for session in self._clients.all())

    @property
    def subscribed_clients(self) -> int:
        """Sessions with a subscription: from then on they miss no event."""
        return sum(bool(session.subscriptions) for session in self._clients.all())

    def users_of(self, source: str) -> frozenset[str]:
        """Users who are subscribed to a PushTopic or generic channel now, by the id of its record."""
        return frozenset(
            session.user_id
            for session in self._clients.all()
            for each in tuple(session.subscriptions.values())
            if isinstance(each.source, Notifications) and each.source.source == source
        )

    @property
    def answers_sent(self) -> int:
        """Answers to connects that had events, or that were held for their whole time."""
        return self._connects.answers_sent

    def next_due(self) -> int | None:
        """Return when the next connect is answered if nothing else happens (epoch ms by the org's clock); None without
        one that is held. A time that is past means that something is being done."""
        with self.bus.changed:
            due = [
                0
                if each.is_at_work or self._connects.has_more(each)
                else min(each.held_until, self.bus.next_publication)
                for each in self._clients.all()
                if each.is_held
            ]
        return min(due, default=None)

    def user_of(self, token: str) -> str | None:
        """Whose token it is."""
        return self._sessions.user_of(token)

    def start(self) -> None:
        """Serve again after a stop; sessions of before are forgotten."""
        self._connects.is_stopping = False

    def stop(self) -> None:
        """Answer every connect that is held, and forget all sessions."""
        self._connects.is_stopping = True
        self._clients.forget_all()
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
                parts = [reply_to(message, **refusal.reply())]
            answer.messages += parts
        if self.faults.take(Fault.COMETD_SLOW):
            answer.pause = float(self.faults.option(Fault.COMETD_SLOW, "seconds", 5))
        return answer

    def _handled(self, call: CometdCall, answer: CometdAnswer, channel: str, message: Message) -> list[dict[str, Any]]:
        self._check_the_caller(call, channel)
        if channel == HANDSHAKE:
            return [self._handshake(call, answer, message)]
        session = self._session(call, channel, message)
        if channel == CONNECT:
            return self._connects.answer(call, answer, session, message)
        session.heard_at = self._org.clock()
        if channel == SUBSCRIBE:
            return [self._subscribe(session, message)]
        if channel == UNSUBSCRIBE:
            session.subscriptions.pop(str(message.get("subscription")), None)
            return [reply_to(message, clientId=session.client_id, subscription=message.get("subscription"))]
        if channel == DISCONNECT:
            self._clients.forget(session)
            self.bus.wake()
            return [reply_to(message, clientId=session.client_id)]
        raise BayeuxRefused(refusals.RESTRICTED_CHANNEL)

    def _check_the_caller(self, call: CometdCall, channel: str) -> None:
        if call.refusal is not None:
            raise BayeuxRefused(call.refusal)
        if not channel.startswith("/"):
            raise BayeuxRefused(refusals.MALFORMED)
        if self.faults.take(Fault.COMETD_BUSY):
            raise BayeuxRefused(refusals.TOO_BUSY)
        if self.faults.take(Fault.COMETD_REFUSED):
            error = self.faults.option(Fault.COMETD_REFUSED, "error", refusals.USER_NOT_ENABLED.error)
            raise BayeuxRefused(refusals.BayeuxRefusal(str(error)))
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
        self._clients.add(session)
        answer.cookie = session.cookie
        return reply_to(
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
        session = self._clients.find(client_id)
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
        others = sum(bool(each.subscriptions) for each in self._clients.all() if each is not session)
        most = self._org.settings.concurrent_streaming_clients
        if others >= most or self.faults.take(Fault.COMETD_CLIENT_LIMIT):
            raise BayeuxRefused(refusals.TOO_MANY_CLIENTS)
        place = self._start(session, source, channel, message)
        session.subscriptions[channel] = ChannelSubscription(source, place)
        self.bus.wake()
        return reply_to(message, clientId=session.client_id, subscription=channel)

    def _start(self, session: ClientSession, source: ChannelSource, channel: str, message: Message) -> int:
        """Return the number to read on after. The map of places knows a channel without its filter."""
        ext = message.get("ext")
        wanted = ext.get("replay") if isinstance(ext, Mapping) and session.replays else None
        places = wanted if isinstance(wanted, Mapping) else {}
        place = places.get(channel, places.get(channel.partition("?")[0], NEW))
        try:
            return source.start(int(place))
        except (ReplayIdCorruptedError, ValueError, TypeError, OverflowError):
            raise BayeuxRefused(refusals.invalid_replay_id(place)) from None
