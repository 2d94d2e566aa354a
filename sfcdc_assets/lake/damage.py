"""Which tables of an entity are damaged: a log that cannot be read, files that are gone, cut off or not Parquet.

Files are compared with what the log says of them; only `thorough` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import polars as pl
from pyarrow import fs

from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.raw_events import NAME as RAW_EVENTS
from sfcdc_assets.lake.stores import store_refusals
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.unreadable_file import unreadable
from sfcdc_assets.lake.warehouse import Warehouse

LAYERS = ("snapshot", "text_fields", "gap_reconciliation", "history", "current_state")


def damage_of(warehouse: Warehouse, entity: str, *, thorough: bool = False) -> list[TableDamaged]:
    """The first damage of each of the entity's tables, and of its part of `raw_events`, in the order of the flow."""
    names = [RAW_EVENTS, *(f"{layer}/{entity}" for layer in LAYERS)]
    found = (next(_damages(warehouse, name, entity, thorough), None) for name in names)
    return [damage for damage in found if damage is not None]


def _damages(warehouse: Warehouse, name: str, entity: str, thorough: bool) -> Iterator[TableDamaged]:
    try:
        table = Table.open(warehouse, name)
        if table is None:
            return
        statistics = table.file_statistics()
    except TableDamaged as damage:
        yield damage
        return
    if name == RAW_EVENTS:
        statistics = statistics.filter(pl.col("partition.entity_name") == entity)
    files = dict(statistics.select("path", "size_bytes").iter_rows())
    filesystem = warehouse.filesystem(name)
    sizes = _sizes(warehouse, filesystem, files, f"entity_name={entity}" if name == RAW_EVENTS else "")
    for path, expected in files.items():
        size = sizes.get(unquote(path))
        if size is None:
            yield TableDamaged(name, entity, path, "is missing")
        elif size != expected:
            yield TableDamaged(name, entity, path, f"has {size:,} bytes instead of {expected:,}")
    found = unreadable(warehouse.root, filesystem, files) if thorough else None
    if found is not None:
        yield TableDamaged(name, entity, found[0], f"cannot be read ({found[1]})")


def _sizes(warehouse: Warehouse, filesystem: fs.FileSystem, paths: Iterable[str], part: str) -> dict[str, int]:
    """Path -> bytes, of the files that there are. An object store lists a folder more quickly than it reports each
    file; on a disk a list costs the more the more replaced files wait to be vacuumed."""
    wanted: fs.FileSelector | list[str] = [unquote(path) for path in paths]
    if not warehouse.is_local:
        wanted = fs.FileSelector(part, recursive=True, allow_not_found=True)
    with store_refusals(warehouse.root):
        found = filesystem.get_file_info(wanted)
    return {info.path.lstrip("/"): info.size for info in found if info.type is fs.FileType.File}
