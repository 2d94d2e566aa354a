"""Which tables of an entity are damaged: a log that cannot be read, files that are gone, cut off or not Parquet.

Files are compared with what the log says of them; only `thorough` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import unquote

from pyarrow import fs

from sfcdc_assets.lake.delta.data_files import unreadable
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged, UnreadableTable
from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.tables.raw_events import NAME as RAW_EVENTS
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.concurrency import side_by_side

T = TypeVar("T")
Unreadable = TableDamaged | UnreadableTable
"""Why nothing can be known of an entity, while all of the others can be."""

LAYERS = ("snapshot", "text_fields", "gap_reconciliation", "history", "current_state")
"""An entity's own tables, in the order of the flow."""


class DamageSeen:
    """What a look over many tables comes across: one that is damaged keeps nobody from the others."""

    def __init__(self) -> None:
        self.found: list[TableDamaged] = []

    def unless(self, look: Callable[[], T]) -> T | None:
        """Return what a look finds; None where a table is damaged, which is noted."""
        try:
            return look()
        except TableDamaged as damage:
            self.found.append(damage)
            return None

    def note(self, *found: TableDamaged | None) -> None:
        """Note damage that was not noted before: several looks come across one table."""
        for each in found:
            if each is not None and str(each) not in map(str, self.found):
                self.found.append(each)


def of_each_entity(work: Callable[[str], T], entities: Sequence[str], at_once: int) -> dict[str, T | Unreadable]:
    """Return what the work gives for each entity, some at a time; of one whose tables cannot be read the reason, which
    keeps nobody from the others. Raises the first other error, when all are done."""
    found = dict(zip(entities, list(side_by_side(work, entities, at_once)), strict=True))
    for each in found.values():
        if isinstance(each, Exception) and not isinstance(each, Unreadable):
            raise each
    return found  # type: ignore[return-value]


def of_readable(work: Callable[[str], T], entities: Sequence[str], at_once: int) -> dict[str, T]:
    """Return what the work gives for the entities whose tables can be read."""
    found = of_each_entity(work, entities, at_once)
    return {entity: each for entity, each in found.items() if not isinstance(each, Unreadable)}


def damage_of(warehouse: Warehouse, entity: str, *, thorough: bool = False) -> list[TableDamaged]:
    """Return the first damage of each of the entity's tables, and of its part of `raw_events`, in the order of the
    flow."""
    return damages_of(warehouse, [entity], thorough=thorough)


def damages_of(warehouse: Warehouse, entities: Sequence[str], *, thorough: bool = False) -> list[TableDamaged]:
    """Return the damages of one entity after another."""
    of_events = damage_of_events(warehouse, entities, thorough=thorough)
    found: list[TableDamaged | None] = []
    for entity in entities:
        tables = [opened(warehouse, f"{layer}/{entity}") for layer in LAYERS]
        found.append(of_events.get(entity))
        found += [damage_of_table(warehouse, entity, table, thorough=thorough) for table in tables]
    return [damage for damage in found if damage is not None]


def damage_of_events(
    warehouse: Warehouse, entities: Sequence[str], *, thorough: bool = False
) -> dict[str, TableDamaged]:
    """Entity -> the first damage of its part of `raw_events`, of those of which there is any. Of many entities the
    table is looked at once."""
    table = opened(warehouse, RAW_EVENTS)
    if isinstance(table, TableDamaged):
        return dict.fromkeys(entities, table)
    if table is None:
        return {}
    files: dict[str, dict[str, int]] = {entity: {} for entity in entities}
    known = table.file_statistics()
    described = (known[name].to_list() for name in ("partition.entity_name", "path", "size_bytes"))
    for entity, path, size in zip(*described, strict=True):
        if entity in files:
            files[entity][path] = size
    paths = [path for of_entity in files.values() for path in of_entity]
    part = f"entity_name={entities[0]}" if len(entities) == 1 else ""
    present = _sizes(warehouse, RAW_EVENTS, paths, part)
    found = {
        entity: _first(warehouse, RAW_EVENTS, entity, of_entity, present, thorough=thorough)
        for entity, of_entity in files.items()
    }
    return {entity: damage for entity, damage in found.items() if damage is not None}


def opened(warehouse: Warehouse, name: str) -> Table | TableDamaged | None:
    """Return a table whose log can be read, or what is wrong with it; None where there is no such table."""
    try:
        table = Table.open(warehouse, name)
        if table is not None:
            table.file_statistics()
    except TableDamaged as damage:
        return damage
    return table


def damage_of_table(
    warehouse: Warehouse, entity: str | None, table: Table | TableDamaged | None, *, thorough: bool = False
) -> TableDamaged | None:
    """Return the first damage of a table that was `opened`."""
    if not isinstance(table, Table):
        return table
    known = table.file_statistics()
    files = dict(zip(known["path"].to_list(), known["size_bytes"].to_list(), strict=True))
    present = _sizes(warehouse, table.name, files, "")
    return _first(warehouse, table.name, entity, files, present, thorough=thorough)


def _first(
    warehouse: Warehouse,
    name: str,
    entity: str | None,
    files: Mapping[str, int],
    present: Mapping[str, int],
    *,
    thorough: bool,
) -> TableDamaged | None:
    """`files`: path -> bytes, by the log; `present`: the same as it is."""
    for path, expected in files.items():
        size = present.get(unquote(path))
        if size is None:
            return TableDamaged(name, entity, path, "is missing")
        if size != expected:
            return TableDamaged(name, entity, path, f"has {size:,} bytes instead of {expected:,}")
    found = unreadable(warehouse.root, warehouse.filesystem(name), files) if thorough else None
    return TableDamaged(name, entity, found[0], f"cannot be read ({found[1]})") if found is not None else None


def _sizes(warehouse: Warehouse, name: str, paths: Iterable[str], part: str) -> dict[str, int]:
    """Path -> bytes, of the files that there are. An object store lists a folder more quickly than it reports each
    file; on a disk a list costs the more the more replaced files wait to be vacuumed."""
    wanted: fs.FileSelector | list[str] = [unquote(path) for path in paths]
    if not wanted:
        return {}
    if not warehouse.is_local:
        wanted = fs.FileSelector(part, recursive=True, allow_not_found=True)
    with store_refusals(warehouse.root):
        found = warehouse.filesystem(name).get_file_info(wanted)
    return {info.path.lstrip("/"): info.size for info in found if info.type is fs.FileType.File}
