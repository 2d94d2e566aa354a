"""Open doubts about records that another entity's rows told to have changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sfcdc_assets.lake.decide_anew import decide_anew
from sfcdc_assets.lake.gap_reconciliation import Ledger
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.state.doubt import Doubt
from sfcdc_assets.state.silent_change import POINTED_AT


@decide_anew
def doubt_others(warehouse: Warehouse, channel: str, silent: Sequence[Mapping[str, Any]]) -> int:
    """Note the records in the ledger of their own entity, whose next run reads them back; returns how many are new.

    `channel` is that of `silent`'s positions. An entity that was never copied needs no doubt: its snapshot is still to
    come. One that follows another channel is read after all that has landed there.
    """
    taken = Snapshots.open(warehouse, POINTED_AT) if silent else None
    progress = taken.progress() if taken else None
    if progress is None:
        return 0
    landed = RawEvents.open(warehouse).place(progress.channel).position
    doubts = [
        {**each, "reason": Doubt.SILENT_CHANGE.value} | ({} if progress.channel == channel else {"position": landed})
        for each in silent
    ]
    return Ledger.open_or_create(warehouse, POINTED_AT).note(doubts, progress.channel, landed, int(time.time() * 1000))
