"""Maintenance of a warehouse: what a table costs depends on what is new in it, not on how old it is.

Each table is pruned, packed, vacuumed and given a checkpoint, one after another. Nothing of what is true changes, and
it may be stopped at any moment. Others may be at work: where they were first, a table is left as it is until the next
time; where maintenance was, they open the table again, as they do for any other writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sfcdc_assets.lake.maintenance.maintained_tables import landed_tables, maintained_tables
from sfcdc_assets.lake.maintenance.pack import FULL_BYTES
from sfcdc_assets.lake.maintenance.table_done import TableDone
from sfcdc_assets.lake.maintenance.table_upkeep import KeptCuts, Retention, TableUpkeep
from sfcdc_assets.lake.tables import consistent_cuts, rolling_audits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.settings.settings import Settings


def maintain(
    warehouse: Warehouse, retention: Retention, now_ms: int, full_bytes: int = FULL_BYTES
) -> Iterator[TableDone]:
    """Maintain table after table; what was done to one is yielded before the next is begun. A damaged table is named
    and does not keep from the others. Raises `StoreRefused` and `StoreUnavailable`."""
    cuts = KeptCuts(warehouse, retention.of_cuts, utc(now_ms))
    tables = maintained_tables(warehouse, retention.payload_days)
    yield from _maintained([TableUpkeep(warehouse, each, retention, cuts, full_bytes) for each in tables])


def thin_out(warehouse: Warehouse, retention: Retention, now_ms: int) -> Iterator[TableDone]:
    """Do the part of maintenance that is worth its while every ten minutes: forget cuts, delete what those do not need
    that are kept and what packing replaced where streams land, and pack the tables to which batches append, because a
    cut that is kept keeps every small file that it names, and the one that each run reads whole and appends to.

    Tables of which all cuts name one version are not looked at. Raises as `maintain`, and `TableDamaged`."""
    cuts = KeptCuts(warehouse, retention.of_cuts, utc(now_ms))
    if not cuts.may_go:
        return
    busy = {name for name, versions in cuts.versions.items() if len(versions) > 1}
    if busy:
        busy |= {each.name for each in landed_tables(warehouse, retention.payload_days)}
    busy |= {consistent_cuts.NAME, rolling_audits.NAME}
    yield from _maintained(
        [
            TableUpkeep(warehouse, each, retention, cuts, FULL_BYTES, is_frequent=True)
            for each in maintained_tables(warehouse, retention.payload_days)
            if each.name in busy
        ]
    )


def _maintained(works: Sequence[TableUpkeep]) -> Iterator[TableDone]:
    work = {each.table.name: each for each in works}
    # Packing takes room before it gives any, so all that makes room comes first; cuts say what else may go.
    freed = {name: _timed(work[name].free) for name in sorted(work, key=lambda name: name != consistent_cuts.NAME)}
    for name, each in work.items():
        before = freed[name]
        done = _timed(partial(each.go_on, before)) if before is not None else None
        if before is not None and done is not None:
            yield replace(done, seconds=before.seconds + done.seconds)


def _timed(step: Callable[[], TableDone | None]) -> TableDone | None:
    started = time.monotonic()
    done = step()
    return replace(done, seconds=time.monotonic() - started) if done is not None else None


def maintain_with_settings(warehouse: Warehouse, settings: Settings, now_ms: int) -> Iterator[TableDone]:
    """Maintain as `maintain` does, with the retentions that are set."""
    return maintain(warehouse, retention_of(settings), now_ms)


def retention_of(settings: Settings) -> Retention:
    """Return those that are set."""
    return Retention(
        settings.cut_retention_days,
        settings.payload_retention_days,
        hour_cut_hours=settings.cut_hour_hours,
        minute_cut_hours=settings.cut_minute_hours,
        batch_cut_hours=settings.cut_batch_hours,
    )
