"""What the service advises its client to do next (Bayeux, "advice")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONNECT_SECONDS = 110.0
"""How long a connect is held without an event (Streaming API guide, "Clients and Timeouts")."""
RETRY, HANDSHAKE, NONE = "retry", "handshake", "none"


@dataclass(frozen=True)
class Advice:
    """`reconnect`: go on with a connect, with a handshake, or not at all; `interval`: seconds to wait before;
    `timeout`: for how many seconds a connect is held."""

    reconnect: str = RETRY
    interval: float = 0.0
    timeout: float = CONNECT_SECONDS

    def after(self, reply: Mapping[str, Any]) -> Advice:
        """What counts after a reply: a part that it leaves out stays as it was, and so does one that is no such thing.
        The protocol has milliseconds."""
        given = reply.get("advice")
        if not isinstance(given, Mapping):
            return self
        reconnect = given.get("reconnect")
        return Advice(
            reconnect if reconnect in (RETRY, HANDSHAKE, NONE) else self.reconnect,
            _seconds(given.get("interval"), self.interval),
            _seconds(given.get("timeout"), self.timeout),
        )


def _seconds(milliseconds: object, before: float) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or milliseconds < 0:
        return before
    return milliseconds / 1000
