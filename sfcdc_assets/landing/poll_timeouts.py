"""How long a reading of a channel waits, and for what."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfcdc_assets.streams.transport import SILENCE_SECONDS


@dataclass(frozen=True)
class PollTimeouts:
    """How long a reading waits, in seconds: for the first response of a call, for the next one, and in all. It ends
    with the first event that was committed after it began, because a stream may never rest.

    `goes_on`: somebody reads on later from the same subscription. `through_ms`: a silence lasts at least until all that
    was committed before (epoch ms, UTC) is landed. `needed_answer`: as `first_answer`, where something depends on it: a
    start at LATEST has no place before, a resume point has grown old, a transaction or `through_ms` is waited for.
    `only_arrived`: what has arrived on the open call is taken, and nothing else is asked of the stream. `asks_all`: of
    objects that are polled all are asked, due or not, by who has asked none before.
    """

    first_answer: float
    quiet: float
    budget: float
    goes_on: bool = False
    through_ms: int = 0
    needed_answer: float = 0.0
    only_arrived: bool = False
    asks_all: bool = False


TICK = PollTimeouts(first_answer=1.0, quiet=0.2, budget=20.0, goes_on=True)
"""A sensor's tick, which is ended from outside after 60 s: the subscription stays open until the next one."""

AHEAD = PollTimeouts(first_answer=0.0, quiet=0.0, budget=1.0, goes_on=True, only_arrived=True)
"""Between two ticks: whoever ticks does not wait long for it."""

ANSWER_SECONDS = SILENCE_SECONDS + 10
"""A stream that has not answered after so long is dead."""

POLL = PollTimeouts(first_answer=ANSWER_SECONDS, quiet=1.0, budget=600.0)
"""One reading of what there is: a stream that has answered sends what it has within a round trip. The first response of
a quiet channel may take 270 s."""

NOW = replace(POLL, first_answer=15.0, needed_answer=ANSWER_SECONDS)
"""The same for whoever comes again (`sfcdc sync`): events that wait come within seconds, so a channel without any is
not waited for until its keepalive. That it said nothing completes nothing: neither a transaction nor a cut."""

NOW_ALL = replace(NOW, asks_all=True)
"""The same for whoever wants to know of every polled object what has changed by now."""

WATERMARK = PollTimeouts(first_answer=5.0, quiet=0.5, budget=600.0)
"""For the watermark of a read of the org: any position that is landed will do, a higher one spares work."""


def until_settled(settle_seconds: float, timeouts: PollTimeouts = POLL) -> PollTimeouts:
    """Return the timeouts of a reading that waits until the last transaction counts as complete, and asks all polled
    objects."""
    return replace(timeouts, quiet=settle_seconds, asks_all=True)
