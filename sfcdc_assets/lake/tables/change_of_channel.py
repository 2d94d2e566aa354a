"""An entity's channel may change: SFCDC_CHANNELS is reordered, a channel comes or goes, or an object moves to another.

Positions are each channel's own, so rows that stand for positions of one channel must never meet events of another: old
events would be applied again, or new ones taken for old. Therefore the entity begins again. It is read whole from the
org, with a watermark on the new channel at a position higher than any in its tables, so that everything in them comes
before everything that follows, and every rule about positions holds as if there had been one channel all the time.
"""

from __future__ import annotations

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import history, text_fields
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError


class OtherChannel(SfcdcError):
    """An entity's tables rest on the events of another channel than the one that now carries it."""

    def __init__(self, entity: str, channel: str) -> None:
        self.entity = entity
        self.channel = channel
        super().__init__(
            f"{entity}: its tables were built from another channel than {channel}, whose events it now gets; positions "
            f"of two channels cannot be compared, so it is read again first. Launch the job `snapshot` for {entity}, "
            "or run `sfcdc sync`."
        )


@retry_on_conflict
def begin_on(warehouse: Warehouse, entity: str, channel: str) -> int:
    """Return the least position at which a snapshot of the entity may have its watermark on `channel`; the channel is
    brought there.

    Higher than every position in the entity's tables. Asking again gives the same as long as these are the same.
    """
    first = _highest_position(warehouse, entity) + 1
    RawEvents.open(warehouse).skip_to(channel, first)
    return first


def position_of_its_own(warehouse: Warehouse, entity: str, channel: str, watermark: int) -> int:
    """Return the position from which on events of an entity wait for something that no event reports, such as a change
    that an administrator made: the one after what is in the rows, and after the `watermark` of what was read or is
    being read. A read that is at or after it counts as one that was made later, by a rebuild too.
    Where nothing has landed yet that could have it, it becomes an entry of the stream, so that a read can have its
    watermark after it."""
    position = next_position(warehouse, entity, channel, watermark)
    RawEvents.open(warehouse).skip_to(channel, position)
    return position


def next_position(warehouse: Warehouse, entity: str, channel: str, watermark: int) -> int:
    """Return the one after what is in the entity's rows, and after the `watermark` of what was read or is being
    read."""
    table = CurrentState.open(warehouse, entity)
    return max(table.applied(channel) or 0 if table else 0, watermark) + 1


def _highest_position(warehouse: Warehouse, entity: str) -> int:
    """Return the highest position of all that the entity's tables hold, but for the pages of a snapshot that is not
    finished."""
    found = [0]
    present = CurrentState.open(warehouse, entity)
    if present is not None:
        found.append(present.checkpoint("").suspected)
        found += [file.statistics.get("max._position") or 0 for file in present.table.files()]
    taken = Snapshots.open(warehouse, entity)
    if taken is not None:
        found.append(taken.highest_position())
    for name, column in ((history.name_of(entity), "_position"), (text_fields.name_of(entity), "position")):
        table = Table.open(warehouse, name)
        if table is not None:
            found += [file.statistics.get(f"max.{column}") or 0 for file in table.files()]
    return max(found)
