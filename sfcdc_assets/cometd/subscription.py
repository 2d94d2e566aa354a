"""A channel's subscription over CometD: a session of its own, begun again by a new handshake.

That a subscription was accepted is no answer of the stream: old events are replayed after it, when the service likes.
The first event is one, or a connect that was held for its whole time and brought none.
"""

from __future__ import annotations

from sfcdc_assets.cometd.client import CONNECT
from sfcdc_assets.cometd.connection import CometdConnection
from sfcdc_assets.cometd.errors import CometdUnavailable
from sfcdc_assets.cometd.long_poll import LongPoll
from sfcdc_assets.cometd.refusal import Refusal
from sfcdc_assets.streams.kept_subscription import KeptSubscription
from sfcdc_assets.streams.replay import ReplayStart


class CometdSubscription(KeptSubscription[LongPoll]):
    """The subscription to one channel, from where `progress` is on (see `streams.transport.Subscription`)."""

    _connection: CometdConnection

    def top_up(self, *, sparingly: bool = False) -> None:
        """Nobody asks: the service pushes."""

    @property
    def outstanding(self) -> int:
        """1 while a session is open, as events may be on their way at any time."""
        return int(self.is_open)

    def _begin(self, start: ReplayStart) -> LongPoll:
        client = self._connection.client(self._clock)
        try:
            client.handshake()
            client.subscribe({self._channel: start})
        except BaseException:
            client.http.close()
            raise
        return LongPoll(client, self._channel, self._clock)

    def _silent(self, seconds: float) -> CometdUnavailable:
        return CometdUnavailable(Refusal(CONNECT, self._channel, 0, f"no answer for {seconds:.0f} s"))
