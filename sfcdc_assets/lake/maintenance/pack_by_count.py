"""Packing by count: a table is packed when it has many small files, whatever the hour.

Packing takes a few seconds for some hundreds of files and changes nothing for those who append meanwhile. How many
files a table has is bounded so, by `MANY_FILES` and a few that grow with the logarithm of what was written; a night's
maintenance alone would let it grow with the day's traffic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance.maintained_tables import landed_tables, maintained_tables
from sfcdc_assets.lake.maintenance.pack import Packing, pack, packable
from sfcdc_assets.lake.maintenance.table_done import TableDone, after_step
from sfcdc_assets.lake.warehouse import Warehouse

MANY_FILES = 500
"""Small files of a table that are worth packing: some seven minutes of a busy channel, and two seconds of work."""


def files_to_pack(warehouse: Warehouse, payload_retention_days: int | None) -> int:
    """Return the most small files that a table has in which streams land, from the logs alone. No other table gets more
    of them than `raw_events`. Raises `TableDamaged`."""
    tables = landed_tables(warehouse, payload_retention_days)
    return max((_packable(warehouse, each.name, each.packing) for each in tables if each.packing), default=0)


def _packable(warehouse: Warehouse, name: str, packing: Packing) -> int:
    table = Table.open(warehouse, name)
    return table.answer(("packable", packing), lambda: packable(table, packing)) if table is not None else 0


def pack_where_many(warehouse: Warehouse, payload_retention_days: int | None) -> Iterator[TableDone]:
    """Pack every table that has many small files. Raises `StoreRefused` and `StoreUnavailable`."""
    for each in maintained_tables(warehouse, payload_retention_days):
        if each.packing is not None:
            started = time.monotonic()
            done = after_step(TableDone(each.name), partial(_packed, warehouse, each.packing))
            if done.is_worth_telling:
                yield replace(done, seconds=time.monotonic() - started)


def _packed(warehouse: Warehouse, packing: Packing, done: TableDone) -> TableDone:
    if _packable(warehouse, done.table, packing) < MANY_FILES:
        return done
    packed = pack(warehouse, done.table, packing)
    return replace(done, packed=packed.files, packed_into=packed.into, given_up=packed.given_up)
