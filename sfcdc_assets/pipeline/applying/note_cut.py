"""Note the cut that a run reached: all of a channel's tables at one position between two transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sfcdc_assets.lake.consistent_cuts import Cut, add_cut
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.entities import EntityState, entity_states


@dataclass(frozen=True)
class CutNoted:
    """`cut`: the cut that was added, if it is new. `rows_are_ahead`: there is none yet only because a table holds a row
    that was read from the org later than the stream is known to be landed; time alone mends it."""

    cut: Cut | None
    rows_are_ahead: bool = False


def note_cut(
    warehouse: Warehouse, channels: dict[str, str], channel: str, position: int, complete_through_ms: int, now_ms: int
) -> CutNoted:
    """Add the cut at `position` if every table of the channel stands exactly there.

    `channels`: entity -> channel, all that are known; `position`: the complete position the run applied up to; all that
    was committed before `complete_through_ms` is at or before it.
    """
    mine = {entity: of for entity, of in channels.items() if of == channel}
    states = entity_states(warehouse, mine, now_ms)
    return note_cut_of(warehouse, states, channel, position, complete_through_ms, now_ms)


def note_cut_of(
    warehouse: Warehouse,
    states: Sequence[EntityState],
    channel: str,
    position: int,
    complete_through_ms: int,
    now_ms: int,
) -> CutNoted:
    """The same, with the states of all entities of the channel at hand.

    There is no cut while an entity lags, failed or is in doubt as a whole, or holds a row that was read from the org
    after that time: that row may be ahead of the others.
    """
    for state in states:
        if state.lacks_snapshot or state.has_events_up_to(position) or state.pending_reads:
            return CutNoted(None)
        if state.applied is None or state.applied > position:
            return CutNoted(None)
    if any(state.read_at > complete_through_ms for state in states):
        return CutNoted(None, rows_are_ahead=True)
    tables = dict(sorted((name, version) for state in states for name, version in state.versions.items()))
    committed = RawEvents.open(warehouse).last_commit_timestamp(channel, position)
    cut = Cut(channel, position, committed, tables)
    return CutNoted(cut if add_cut(warehouse, cut, datetime.fromtimestamp(now_ms / 1000, UTC)) else None)
