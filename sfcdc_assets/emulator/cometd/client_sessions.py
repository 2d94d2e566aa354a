"""The sessions of all clients; one whose client stays away is forgotten."""

from __future__ import annotations

import threading

from sfcdc_assets.emulator.cometd.client_session import ClientSession
from sfcdc_assets.emulator.org.clock import Clock


class ClientSessions:
    """Thread-safe. `reconnect`: seconds that a client may stay away for."""

    def __init__(self, clock: Clock, reconnect: float) -> None:
        self._clock = clock
        self._reconnect = reconnect
        self._lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}

    def all(self) -> list[ClientSession]:
        """Return those that are not forgotten."""
        now = self._clock()
        with self._lock:
            away = [each for each in self._sessions.values() if each.is_forgotten(now, self._reconnect)]
            for each in away:
                each.is_over = True
                del self._sessions[each.client_id]
            return list(self._sessions.values())

    def find(self, client_id: str) -> ClientSession | None:
        """Return the client's session, if it is not forgotten."""
        return next((each for each in self.all() if each.client_id == client_id), None)

    def add(self, session: ClientSession) -> None:
        """Add the session of a handshake."""
        with self._lock:
            self._sessions[session.client_id] = session

    def forget(self, session: ClientSession) -> None:
        """Forget the client, which is unknown from now on."""
        session.is_over = True
        with self._lock:
            self._sessions.pop(session.client_id, None)

    def forget_all(self) -> None:
        """Forget all clients, as a server that is started again does."""
        for session in self.all():
            self.forget(session)

    def begin_connect(self, session: ClientSession) -> int:
        """Note a connect; its number, by which it knows whether another one has come since."""
        with self._lock:
            session.connects += 1
            session.is_held = session.is_at_work = True
            return session.connects

    def end_connect(self, session: ClientSession, number: int) -> None:
        """End a connect that is being answered: the client has its time to connect again from now on."""
        with self._lock:
            session.heard_at = self._clock()
            session.is_held = session.is_held and session.connects != number
