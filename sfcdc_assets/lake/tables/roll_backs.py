"""What an entity's tables were before a batch went back to an earlier watermark.

Such a batch follows again what came after the watermark: versions that were in the tables may be others afterwards, and
those that were there before are removed. Whoever asks what has changed since a batch before it (`changes_since`) needs
them. So the commit of the batch notes which versions of the two tables had them, and maintenance keeps these for as
long as it keeps cuts. The numbers are transaction versions of `current_state`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms

SLOTS = 8
"""So many are remembered; the next one takes the place of the oldest."""
_COUNT = "roll-backs"


@dataclass(frozen=True)
class RollBack:
    """Of one entity: the batch that went back, and the watermark; in which tables, known by when they were built; the
    versions of `current_state` and `history` with all that was there before; when, epoch ms by our clock."""

    batch: int
    position: int
    built_at: int
    rows: int
    versions: int
    at: int


_NAMES = tuple(each.name for each in fields(RollBack))


def noting_roll_back(rows: Table, versions: Table, after: Checkpoint, now_ms: int) -> dict[str, int]:
    """Return the transaction versions that note what the handles of a batch have, which is about to go back. `versions`
    may have the rows of the batch already: those do not count before it is committed."""
    number = (rows.transaction_version(_COUNT) or 0) + 1
    noted = RollBack(after.rolled_back_in, after.rolled_back_to, after.built_at, rows.version, versions.version, now_ms)
    return {_COUNT: number} | {_name(number % SLOTS, name): getattr(noted, name) for name in _NAMES}


def roll_backs(rows: Table) -> tuple[RollBack, ...]:
    """Return those that a handle on `current_state` remembers of the tables as they were built last, in order."""
    number = rows.transaction_version(_COUNT) or 0
    built_at = Checkpoint.of(rows, channel="").built_at
    found = (
        RollBack(**{name: rows.transaction_version(_name(slot, name)) or 0 for name in _NAMES})
        for slot in {each % SLOTS for each in range(max(1, number - SLOTS + 1), number + 1)}
    )
    return tuple(sorted((each for each in found if each.built_at == built_at), key=lambda each: each.batch))


def versions_before_roll_backs(warehouse: Warehouse, days: int, now: datetime) -> dict[str, frozenset[int]]:
    """Table -> its versions that are kept because the entity went back within so many days."""
    oldest = epoch_ms(now - timedelta(days=days))
    kept: dict[str, set[int]] = defaultdict(set)
    for entity in warehouse.entities(current_state.LAYER):
        try:
            rows = Table.open(warehouse, current_state.name_of(entity))
        except TableDamaged:
            continue  # maintenance names it
        for each in roll_backs(rows) if rows is not None else ():
            if each.at >= oldest:
                kept[current_state.name_of(entity)].add(each.rows)
                kept[history.name_of(entity)].add(each.versions)
    return {name: frozenset(versions) for name, versions in kept.items()}


def _name(slot: int, name: str) -> str:
    return f"{_COUNT} {slot} {name}"
