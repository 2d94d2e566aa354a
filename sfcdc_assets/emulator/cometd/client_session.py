"""One client's session with the Streaming API: what it is subscribed to, and when it is forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field

from sfcdc_assets.emulator.cometd.sources import ChannelSource

COOKIE = "BAYEUX_BROWSER"


@dataclass(frozen=True)
class CometdTiming:
    """Seconds by the org's clock (Streaming API Developer Guide, "Clients and Timeouts").

    A connect without an event is answered after `timeout`. A client that does not connect again within `reconnect`
    after an answer is forgotten. `interval`: what clients are advised to wait before that.
    """

    timeout: float = 110.0
    reconnect: float = 40.0
    interval: float = 0.0

    def advice(self) -> dict[str, object]:
        """Return the advice as a reply has it: in milliseconds."""
        return {
            "interval": round(self.interval * 1000),
            "multiple-clients": True,
            "reconnect": "retry",
            "timeout": round(self.timeout * 1000),
        }


@dataclass
class ChannelSubscription:
    """A channel of a session; `read_through` is the number of the last event that was sent or passed over."""

    source: ChannelSource
    read_through: int


@dataclass
class ClientSession:
    """Reads and writes hold the service's lock. Times are epoch ms by the org's clock."""

    client_id: str
    cookie: str
    user_id: str
    replays: bool
    heard_at: int
    subscriptions: dict[str, ChannelSubscription] = field(default_factory=dict)
    connects: int = 0
    """How many were begun: the last one is held, those before are answered at once."""
    is_held: bool = False
    is_at_work: bool = False
    """Whether something is being done for the connect that is held."""
    held_until: int = 0
    is_over: bool = False

    def is_forgotten(self, now: int, reconnect_seconds: float) -> bool:
        """Return whether the client stayed away for too long."""
        return not self.is_held and now - self.heard_at > reconnect_seconds * 1000
