"""Type landed events again, from their bytes: the description of a channel's payloads was changed, or a schema that was
not to be had when they came is known by now.

Reading costs what the channel's table holds, a file (of 32 MB at most) in memory; only files in which a row changes are
written again, each in a commit of its own. So it may be stopped at any point, done twice, and done while others land
events and pack files.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.event_channels.typed_again import AT_ONCE, typed_again
from sfcdc_assets.event_channels.typed_event import NOT_KNOWN_YET, EventReader
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.written_file import write_file
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError


class NothingLanded(SfcdcError):
    """The channel has no table."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        super().__init__(f"{channel}: no event has landed that could be typed again. `sfcdc sync` lands what there is.")


@dataclass(frozen=True)
class TypedAgain:
    """How many rows were read, how many of them have changed, in how many files, how many are as they were because the
    settings of privacy have their bytes not kept, and how many because it is not known now what their fields are."""

    rows: int = 0
    changed: int = 0
    files: int = 0
    without_bytes: int = 0
    unknown: int = 0

    def __add__(self, other: TypedAgain) -> TypedAgain:
        return TypedAgain(
            self.rows + other.rows,
            self.changed + other.changed,
            self.files + other.files,
            self.without_bytes + other.without_bytes,
            self.unknown + other.unknown,
        )


def type_waiting(warehouse: Warehouse, channel: str, reader: EventReader) -> int:
    """Type the rows that wait until it is known what their fields are; the position of the first that still waits, 0 if
    none does. Raises what `type_again` raises."""
    events = EventTable.open(warehouse, channel)
    since = events.untyped_from(channel) if events else 0
    if not since:
        return 0
    type_again(warehouse, channel, reader, since)
    return _note_typed(warehouse, channel, since)


@retry_on_conflict
def _note_typed(warehouse: Warehouse, channel: str, since: int) -> int:
    events = EventTable.open(warehouse, channel)
    assert events is not None, channel
    left = events.first_untyped(since)
    if left != events.untyped_from(channel):
        events.note_typed(channel, left)
    return left


def type_again(warehouse: Warehouse, channel: str, reader: EventReader, since: int = 0) -> TypedAgain:
    """Type all rows of the channel's table again that had landed before, from a position on; rows that land meanwhile
    were read by whoever lands them. Raises `NothingLanded`, what the reader raises, `ConcurrentCommit` when others were
    first ten times in a row, and when all other files are done `TableDamaged`; what was done until then stays."""
    events = EventTable.open(warehouse, channel)
    if events is None:
        raise NothingLanded(channel)
    before, met, done = events.last_position(channel), set[str](), TypedAgain()
    damage: TableDamaged | None = None
    while left := [file for file in _landed_until(events.table, since, before) if file.path not in met]:
        for file in left:
            met.add(file.path)
            try:
                done += _type_file(warehouse, channel, reader, file, met)
            except TableDamaged as damaged:
                damage = damaged
        # What others have packed meanwhile lies in files that were not met yet.
        events = EventTable.open(warehouse, channel) or events
    if damage is not None:
        raise damage
    return done


def _landed_until(table: Table, since: int, position: int) -> Sequence[DataFile]:
    first, last = pl.col("min.position").fill_null(0), pl.col("max.position").fill_null(position)
    return table.files((first <= position) & (last >= since)) if table.count() else ()


def _type_file(warehouse: Warehouse, channel: str, reader: EventReader, file: DataFile, met: set[str]) -> TypedAgain:
    events = EventTable.open(warehouse, channel)
    assert events is not None, channel
    if file.path not in set(events.table.file_statistics()["path"]):
        return TypedAgain()
    rows = events.table.read_files([file.path], events.table.schema.names).sort_by("position")
    has_bytes = pc.is_valid(rows["_delivered"])
    before, rest = rows.filter(has_bytes), rows.filter(pc.invert(has_bytes))
    after = typed_again(channel, reader, before)
    new = [field for field in after.schema if field.name not in before.schema.names]
    _widen(warehouse, channel, new)
    before = pa.table([*before.columns, *(pa.nulls(before.num_rows, each.type) for each in new)], after.schema)
    # Where the settings of privacy concern the channel since, a row that is typed again would lose its bytes. One that
    # waits has nothing else, and they were kept until now only.
    # Nor is one taken back that was typed before, where its fields are not known now.
    waited, waits = (pc.starts_with(pc.fill_null(rows["_problem"], ""), NOT_KNOWN_YET) for rows in (before, after))
    is_taken = pc.or_(waited, pc.and_(pc.is_valid(after["_delivered"]), pc.invert(waits)))
    is_hidden, kept = pc.invert(pc.or_(is_taken, waits)), before.filter(pc.invert(is_taken))
    after = pa.concat_tables([after.filter(is_taken), kept]).sort_by("position")
    report = TypedAgain(rows.num_rows, without_bytes=rest.num_rows + _count(is_hidden), unknown=_count(waits))
    changed = _changed(before, after)
    if not changed:
        return report
    whole = pa.concat_tables([after, rest], promote_options="default").sort_by("position")
    plain = pa.schema([field.remove_metadata() for field in after.schema])
    filesystem = warehouse.filesystem(events.table.name)
    path = f"typed-{uuid.uuid4()}.parquet"
    written = write_file(filesystem, path, whole.cast(plain), events.table.column_statistics())
    if not _swap(warehouse, channel, file, written):
        with suppress(OSError):  # no commit names it; vacuum finds it
            filesystem.delete_file(path)
        return TypedAgain()
    met.add(path)
    return report + TypedAgain(changed=changed, files=1)


def _count(is_wanted: pa.ChunkedArray) -> int:
    return int(pc.sum(is_wanted, min_count=0).as_py())


def _changed(before: pa.Table, after: pa.Table) -> int:
    """Return how many rows differ, one part after the other as Python objects."""
    starts = range(0, before.num_rows, AT_ONCE)
    parts = ((before.slice(start, AT_ONCE), after.slice(start, AT_ONCE)) for start in starts)
    return sum(
        sum(old != new for old, new in zip(one.to_pylist(), other.to_pylist(), strict=True))
        for one, other in parts
        if not one.equals(other)
    )


@retry_on_conflict
def _widen(warehouse: Warehouse, channel: str, fields: Sequence[pa.Field]) -> None:
    table = EventTable.open(warehouse, channel)
    assert table is not None, channel
    table.table.add_columns([field for field in fields if field.name not in table.table.schema.names])


@retry_on_conflict
def _swap(warehouse: Warehouse, channel: str, old: DataFile, new: NewFile) -> bool:
    """Put a file in the place of another; False where that one is not there any more."""
    events = EventTable.open(warehouse, channel)
    if events is None or old.path not in set(events.table.file_statistics()["path"]):
        return False
    events.table.swap_files([new], [old], {}, {})
    return True
