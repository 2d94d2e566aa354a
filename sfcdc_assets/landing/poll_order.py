"""The order of polls: whatever one reading of polled objects brings stands at one position of their channel."""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.streams.checkpoint import EARLIEST


@retry_on_conflict
def begin_order(warehouse: Warehouse) -> None:
    """Note, once, that reads of the org may have their watermarks among the polls; and whatever position was given out
    among them is one at which all is complete."""
    events = RawEvents.open(warehouse)
    checkpoint = events.checkpoint(POLLED)
    if checkpoint.begun is None or checkpoint.complete_position < checkpoint.position:
        begun_at_ms = checkpoint.begun_at_ms or clock.now_ms()
        complete = replace(checkpoint, complete_position=checkpoint.position)
        events.note(replace(complete, begun=EARLIEST, begun_at_ms=begun_at_ms))


class OnePosition:
    """The place of one reading in the order of polls, taken when it is first asked for."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._position: int | None = None

    def __call__(self) -> int:
        """Return it; the same for as long as the reading goes on. What is noted at it counts as complete."""
        if self._position is None:
            self._position = self._take()
        return self._position

    @retry_on_conflict
    def _take(self) -> int:
        events = RawEvents.open(self._warehouse)
        checkpoint = events.checkpoint(POLLED)
        position = checkpoint.position + 1
        events.note(replace(checkpoint, position=position, complete_position=position))
        return position
