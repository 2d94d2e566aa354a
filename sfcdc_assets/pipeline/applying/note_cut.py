"""Note the cut that a run reached: all of a channel's tables at one position between two transactions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sfcdc_assets.lake.consistent_cuts import Cut, add_cut
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.entities import entity_states

LAYERS = ("text_fields", "gap_reconciliation", "history", "current_state")


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
    was committed before `complete_through_ms` is at or before it. There is no cut while an entity lags, failed or is in
    doubt as a whole, or holds a row that was read from the org after that time: that row may be ahead of the others.
    """
    ahead = False
    mine = {entity: of for entity, of in channels.items() if of == channel}
    for state in entity_states(warehouse, mine, now_ms):
        if state.lacks_snapshot or state.has_events_up_to(position) or state.pending_reads:
            return CutNoted(None)
        table = CurrentState.open(warehouse, state.entity)
        if table is None or (table.applied(channel) or 0) > position:
            return CutNoted(None)
        ahead = ahead or table.checkpoint(channel).read_at > complete_through_ms
    if ahead:
        return CutNoted(None, rows_are_ahead=True)
    tables = {}
    for entity in mine:
        for layer in LAYERS:
            layer_table = Table.open(warehouse, f"{layer}/{entity}")
            if layer_table is not None:
                tables[layer_table.name] = layer_table.version
    committed = RawEvents.open(warehouse).last_commit_timestamp(channel, position)
    cut = Cut(channel, position, committed, dict(sorted(tables.items())))
    return CutNoted(cut if add_cut(warehouse, cut, datetime.fromtimestamp(now_ms / 1000, UTC)) else None)
