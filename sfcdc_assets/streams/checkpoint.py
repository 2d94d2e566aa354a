"""How far a channel has been landed: our own order, and where its stream goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from sfcdc_assets.channel_kinds import COMETD, PUBSUB
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

__all__ = ["COMETD", "EARLIEST", "LATEST", "PUBSUB", "StreamCheckpoint", "open_from"]

EARLIEST, LATEST = "EARLIEST", "LATEST"
"""Where a stream is begun that nothing is known of."""


@dataclass(frozen=True)
class StreamCheckpoint:
    """How far a channel has been landed.

    `position` is the last position given out (0: none), dense per channel; `complete_position` the last one known to
    end a transaction; `resume` where the stream goes on; `transaction_key` that of the last landed event; `begun` where
    the stream was begun, EARLIEST or LATEST (None: not yet), and `begun_at_ms` when (epoch ms, UTC); `open_from` the
    position of the first event of the replay id that `resume` says may be unfinished (0: none is); `transport` the
    protocol whose replay ids these are.
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
