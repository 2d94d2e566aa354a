"""Whether a row that was read from the org shows its record's last events, where SystemModstamp cannot tell.

SystemModstamp is in seconds. Where more than one transaction has changed a record in the second that its row says, the
row may be that of the first while REST lags. Then the values decide: a row that has what the later transactions set is
the record as they left it, whenever it was read. Any other is not believed; nor is one of an event that does not say
what it set, such as a gap, but for a deletion that the row shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.cell_lists import MEMBERS, members_of
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.tables.raw_events import payloads
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.decoded_events import EventReader
from sfcdc_assets.timeline.large_text import names_its_text
from sfcdc_assets.timeline.steps import READABLE

EVENTS_AT_ONCE = 500
"""The most events whose payloads are read together."""


def undecided(rows: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return those of the events of records (see `stale_reads.events_of_records`) of which SystemModstamp cannot tell
    whether the rows (`Id`, `_system_modstamp`) show them: those of the second in which a row was modified, but for the
    first transaction in it."""
    modified = rows.select(record_id="Id", modified=pl.col("_system_modstamp").dt.truncate("1s"))
    of_second = events.join(modified, on="record_id", maintain_order="left").filter(
        pl.col("commit_timestamp").dt.truncate("1s") == pl.col("modified")
    )
    first = pl.col("transaction_key").sort_by("position").first().over("record_id")
    return of_second.filter(pl.col("transaction_key") != first).drop("modified")


def not_shown(
    warehouse: Warehouse, entity: str, channel: str, columns: Sequence[Column], rows: pa.Table, events: pl.DataFrame
) -> set[str]:
    """Return the Ids of the rows (of `columns`, the table's, those that were read; of `READ_COLUMNS` at least
    `_is_deleted`) that do not have what their records' events say, all of them together, or whose events do not say
    it."""
    if events.is_empty():
        return set()
    said = _said(warehouse, entity, channel, columns, sorted(set(events["position"])))
    at = {record_id: number for number, record_id in enumerate(rows["Id"].to_pylist())}
    return {
        str(record_id)
        for (record_id,), of_record in events.sort("position").group_by("record_id")
        if not _shows(rows, at[record_id], columns, [(kind, said.get(p)) for p, kind in _kinds(of_record)])
    }


def _kinds(events: pl.DataFrame) -> list[tuple[int, str]]:
    return list(events.select("position", "change_type").iter_rows())


def _said(
    warehouse: Warehouse, entity: str, channel: str, columns: Sequence[Column], positions: Sequence[int]
) -> dict[int, Mapping[str, Any]]:
    """Position -> what the event there says, as `DECODED`."""
    known = Schemas(warehouse).of_entity(entity)
    reader = EventReader({each.schema_id: each.schema_json for each in known}, columns)
    said: dict[int, Mapping[str, Any]] = {}
    for begin in range(0, len(positions), EVENTS_AT_ONCE):
        landed = pa.Table.from_pylist(
            payloads(warehouse, entity, channel, positions[begin : begin + EVENTS_AT_ONCE]), schema=_LANDED
        )
        decoded = reader.read(landed["schema_id"], landed["position"], landed["payload"])
        said |= dict(zip(landed["position"].to_pylist(), decoded.to_pylist(), strict=True))
    return said


_LANDED = pa.schema([("position", pa.int64()), ("schema_id", pa.string()), ("payload", pa.binary())])


def _shows(
    rows: pa.Table, at: int, columns: Sequence[Column], events: Sequence[tuple[str, Mapping[str, Any] | None]]
) -> bool:
    """Return whether the row at a place has what the events, in their order, set."""
    kinds = [kind for kind, _ in events]
    row_is_deleted = rows["_is_deleted"][at].as_py()
    if kinds[-1] in _DELETES and not {*_DELETES, *_UNDELETES}.intersection(kinds[:-1]):
        return bool(row_is_deleted)  # what came before the deletion, it has seen too
    values: dict[int, tuple[Any, bool]] = {}
    members = members_of(columns)
    for kind, said in events:
        if said is None or said["error"] or said["missing"] or kind not in READABLE:
            return False
        for cell in said["cells"]:
            index = cell["column"]
            values[index] = cell[MEMBERS[members[index]]], index in said["diff_columns"]
    unread = (rows["_unread"][at].as_py() if "_unread" in rows.column_names else None) or ()
    return row_is_deleted == (kinds[-1] in _DELETES) and all(
        _is(_cell(rows[columns[index].name], at), said, is_diff=is_diff)
        for index, (said, is_diff) in values.items()
        if columns[index].name in rows.column_names and columns[index].name not in unread
    )


_DELETES, _UNDELETES = ("DELETE", "GAP_DELETE"), ("UNDELETE", "GAP_UNDELETE")


def _is(value: Any, said: Any, *, is_diff: bool) -> bool:
    """Return whether a value is what an event said; a diff to a text names the text's hash."""
    return names_its_text(said, value or "") if is_diff else value == said


def _cell(column: pa.ChunkedArray, at: int) -> Any:
    """Return a value as a cell holds it."""
    value = column.slice(at, 1)
    if pa.types.is_date32(value.type):
        value = value.cast(pa.int32())
    elif pa.types.is_timestamp(value.type):
        value = value.cast(pa.int64())
    return value[0].as_py()
