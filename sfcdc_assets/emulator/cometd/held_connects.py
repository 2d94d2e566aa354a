"""Connects: each is held until there is something to say (Streaming API Developer Guide, "Clients and Timeouts").

A connect waits at the bus's condition, which tells of new events, of a clock that was moved and of armed faults, so
nothing here polls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfcdc_assets.emulator.cometd import refusals
from sfcdc_assets.emulator.cometd.allowances import Allowances
from sfcdc_assets.emulator.cometd.client_session import ClientSession, CometdTiming
from sfcdc_assets.emulator.cometd.client_sessions import ClientSessions
from sfcdc_assets.emulator.cometd.messages import CometdAnswer, CometdCall, Message, reply_to
from sfcdc_assets.emulator.cometd.refusals import BayeuxRefused
from sfcdc_assets.emulator.cometd.sources import MOST_EVENTS
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg

_HELD_FAULTS = (
    Fault.COMETD_UNKNOWN_CLIENT,
    Fault.COMETD_UNAUTHORIZED,
    Fault.COMETD_EVENT_LIMIT,
    Fault.COMETD_SILENCE,
    Fault.COMETD_RESET,
)
_NEVER = 2**62
"""Until when a silent connect is held (epoch ms)."""


class HeldConnects:
    """Answers the connects of all sessions, each in the thread of its request."""

    def __init__(
        self, org: EmulatedOrg, bus: EventBus, sessions: ClientSessions, allowances: Allowances, timing: CometdTiming
    ) -> None:
        self.is_stopping = False
        self.answers_sent = 0
        """Answers that had events, or whose connects were held for their whole time."""
        self._org = org
        self._bus = bus
        self._faults = bus.faults
        self._sessions = sessions
        self._allowances = allowances
        self._timing = timing

    def answer(
        self, call: CometdCall, answer: CometdAnswer, session: ClientSession, message: Message
    ) -> list[dict[str, Any]]:
        """Hold the request until there is an event, its time is up, or the session ends. The first connect of a session
        is answered at once, as is one whose client asks for it."""
        if message.get("connectionType") != "long-polling":
            raise BayeuxRefused(refusals.invalid_connection_type(message.get("connectionType")))
        number = self._sessions.begin_connect(session)
        self._bus.wake()
        advice = message.get("advice")
        asked = advice.get("timeout") if isinstance(advice, Mapping) else None
        seconds = 0.0 if number == 1 or asked == 0 else self._timing.timeout
        until = self._org.clock() + round(seconds * 1000)
        try:
            found, was_held = self._wait(call, answer, session, number, until)
        finally:
            self._sessions.end_connect(session, number)
        if (found or (was_held and seconds)) and not (answer.is_cut or answer.is_reset):
            self.answers_sent += 1
        more = {"advice": self._timing.advice()} if number == 1 or advice is not None else {}
        return [*found, reply_to(message, clientId=session.client_id, **more)]

    def _wait(
        self, call: CometdCall, answer: CometdAnswer, session: ClientSession, number: int, until: int
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the events that end a connect, and whether it was held until its time was up."""

        def is_over() -> bool:
            return self.is_stopping or session.is_over or call.is_gone.is_set() or session.connects != number

        session.held_until = until
        while True:
            with self._bus.changed:
                self._note(session, number, is_at_work=False)
                while not (is_over() or self.has_more(session)) and (left := until - self._org.clock()) > 0:
                    self._bus.changed.wait(min(left, max(1, self._bus.next_publication - self._org.clock())) / 1000)
                self._note(session, number, is_at_work=True)
            if is_over():
                return [], False
            if not call.is_still_authorized():
                self._forget(session)
                raise BayeuxRefused(refusals.INVALID_TOKEN)
            if self._commit_faults(answer, session):
                with self._bus.changed:
                    session.held_until, session.is_at_work = _NEVER, False
                    self._bus.changed.wait_for(is_over)
                return [], False
            found = self._read(session)
            if found and self._faults.take(Fault.COMETD_CUT):
                answer.is_cut = True
            if found or answer.is_reset or self._org.clock() >= until:
                return found, not found and not answer.is_reset

    @staticmethod
    def _note(session: ClientSession, number: int, *, is_at_work: bool) -> None:
        """Note a connect, of the session's last one only: one before it is on its way out."""
        if session.connects == number:
            session.is_at_work = is_at_work

    def has_more(self, session: ClientSession) -> bool:
        """Return whether a connect of the session has something to do now."""
        if session.held_until == _NEVER:
            return False
        return any(
            each.source.last_number > each.read_through for each in tuple(session.subscriptions.values())
        ) or any(self._faults.armed(fault) for fault in _HELD_FAULTS)

    def _commit_faults(self, answer: CometdAnswer, session: ClientSession) -> bool:
        """Commit an armed fault; True if the connect falls silent."""
        for fault, refusal in (
            (Fault.COMETD_UNKNOWN_CLIENT, refusals.UNKNOWN_CLIENT),
            (Fault.COMETD_UNAUTHORIZED, refusals.INVALID_TOKEN),
            (Fault.COMETD_EVENT_LIMIT, refusals.TOO_MANY_EVENTS),
        ):
            if self._faults.take(fault):
                self._forget(session)
                raise BayeuxRefused(refusal)
        answer.is_reset = self._faults.take(Fault.COMETD_RESET)
        return not answer.is_reset and self._faults.take(Fault.COMETD_SILENCE)

    def _read(self, session: ClientSession) -> list[dict[str, Any]]:
        """Return what the session's channels have, each in its order, those of change events in the order of the
        bus."""
        found: list[tuple[int, dict[str, Any]]] = []
        for channel, subscription in tuple(session.subscriptions.items()):
            left = self._allowances.left(subscription.source.allowance)
            most = max(1, min(MOST_EVENTS, left))
            part = subscription.source.read(channel, session.user_id, subscription.read_through, most)
            if part.metered:
                if left <= 0:
                    self._forget(session)
                    raise BayeuxRefused(refusals.TOO_MANY_EVENTS)
                self._allowances.delivered(subscription.source.allowance, part.metered, part.platform_events)
            subscription.read_through = part.through
            found += part.messages
        return [message for _, message in sorted(found, key=lambda each: each[0])]

    def _forget(self, session: ClientSession) -> None:
        self._sessions.forget(session)
        self._bus.wake()
