"""How far a channel has been landed: our own order, where its stream goes on, and which of the events that one reader
holds another one has landed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from sfcdc_assets.settings.channel_kinds import COMETD, PUBSUB
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

__all__ = ["COMETD", "EARLIEST", "LATEST", "PUBSUB", "StreamCheckpoint", "not_landed_yet", "open_from"]

EARLIEST, LATEST = "EARLIEST", "LATEST"
"""Where a stream is begun that nothing is known of."""


@dataclass(frozen=True)
class StreamCheckpoint:
    """How far a channel has been landed.

    `position` is the last position given out (0: none), dense per channel; `complete_position` the last one known to
    end a transaction; `resume` where the stream goes on; `transaction_key` that of the last landed event; `begun` where
    the stream was begun, EARLIEST or LATEST (None: not yet), and `begun_at_ms` when (epoch ms, UTC); `open_from` the
    position of the first event of the replay id that `resume` says may be unfinished (0: none is); `transport` the
    protocol whose replay ids these are; `repeats` how many deliveries were spent on events that had come before.
    """

    channel: str
    position: int = 0
    complete_position: int = 0
    resume: ResumePoint = field(default_factory=ResumePoint)
    transaction_key: str | None = None
    begun: str | None = None
    begun_at_ms: int | None = None
    open_from: int = 0
    transport: str = PUBSUB
    repeats: int = 0

    @property
    def is_known(self) -> bool:
        """Whether all events from here on will come: nothing can have its watermark to a start at LATEST that has not
        shown where it was."""
        return self.resume.replay_id is not None or self.begun == EARLIEST


def open_from(before: StreamCheckpoint, events: Sequence[DeliveredEvent], resume: ResumePoint) -> int:
    """Position of the first event of the replay id that may be unfinished after `events`; 0 where none is."""
    if resume.open_id is None:
        return 0
    if before.open_from and before.resume.open_id == resume.open_id:
        return before.open_from
    group = takewhile(lambda event: event.replay_id == resume.open_id, reversed(events))
    siblings = sum(1 for _ in group)
    return before.position + len(events) - siblings + 1 if siblings else 0


def not_landed_yet(
    events: Sequence[DeliveredEvent], before: StreamCheckpoint, durable: StreamCheckpoint
) -> Sequence[DeliveredEvent] | None:
    """Return those of `events` that are still to be landed on top of `durable`; None where the order does not tell.

    `events` were delivered next after `before`; another reader has moved the channel from there to `durable`. It got
    the same stream, so if the last event that it landed is one of these, all before that one are landed too. One that
    has landed more positions than these events account for has got further within a replay id: its other events would
    still be delivered here, and be landed twice.
    """
    if (durable.begun, durable.begun_at_ms, durable.transport) != (before.begun, before.begun_at_ms, before.transport):
        return None
    known, reached = before.resume, durable.resume
    if (reached.replay_id, reached.open_id, reached.open_marks) == (known.replay_id, known.open_id, known.open_marks):
        return events
    passed = durable.position - before.position
    end = reached.open_id or reached.replay_id
    group = [number for number, event in enumerate(events) if event.replay_id == end]
    if not group:
        # All of ours come after a group that was open and is known to be whole by now.
        return events if end == known.open_id and reached.open_id is None and not passed else None
    landed = Counter(reached.open_marks) - Counter(known.open_marks if known.open_id == end else ())
    left = []
    for event in events[group[0] : group[-1] + 1] if reached.open_id == end else ():
        if landed[event.mark] > 0:
            landed[event.mark] -= 1
        else:
            left.append(event)
    if passed > group[-1] + 1 - len(left):
        return None
    return [*left, *events[group[-1] + 1 :]]
