"""Rows that name a record, table by table: how they are found, and what is left of them when it is erased."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.erased_event import erase_from_events
from sfcdc_assets.event_channels.event_rows import EVENT_COLUMNS
from sfcdc_assets.lake.tables.erasure_receipts import erased_records
from sfcdc_assets.lake.warehouse import Warehouse

PROBLEM = "_problem"
ERASED = "erased: a record that it named was forgotten"
_KEPT = frozenset([*EVENT_COLUMNS.names, PROBLEM, "event_name"])
_ID = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{15}")


@dataclass(frozen=True)
class NamingRows:
    """Rows of one kind of table. `columns`: what has to be read to find them, None: all. `mask` says of each row
    whether it names one of the records; `left` is what stays of rows, all of which do."""

    columns: tuple[str, ...] | None
    mask: Callable[[pa.Table], pa.Array]
    left: Callable[[pa.Table], pa.Table]

    def count(self, rows: pa.Table) -> int:
        """Return how many of the rows name one of the records."""
        return int(pc.sum(self.mask(rows), min_count=0).as_py() or 0)

    def without(self, rows: pa.Table) -> pa.Table:
        """Return the rows, in their order, with what is left of those that name one of the records."""
        named = self.mask(rows)
        numbers = pa.array(range(rows.num_rows), pa.int64())
        changed = self.left(rows.filter(named).append_column("#", numbers.filter(named)))
        others = rows.filter(pc.invert(named)).append_column("#", numbers.filter(pc.invert(named)))
        if not changed.num_rows:
            return others.drop_columns(["#"])
        return pa.concat_tables([others, changed.cast(others.schema)]).sort_by("#").drop_columns(["#"])


def rows_of_record(column: str, record_ids: Collection[str]) -> NamingRows:
    """Rows that are about one record, named in a column: none of them stays."""
    wanted = pa.array(sorted(record_ids), pa.string())
    return NamingRows((column,), lambda rows: _one(pc.is_in(rows[column], wanted)), lambda rows: rows.slice(0, 0))


def events_of_record(record_ids: Collection[str]) -> NamingRows:
    """Rows of `raw_events`: the header stays without the record, and the payload as far as it is of others."""
    gone = frozenset(record_ids)

    def mask(rows: pa.Table) -> pa.Array:
        return pa.array([not gone.isdisjoint(ids or ()) for ids in rows["record_ids"].to_pylist()], pa.bool_())

    return NamingRows(
        ("record_ids",), mask, lambda rows: erase_from_events(rows, lambda record_id, _: record_id in gone)
    )


def messages_about(record_ids: Collection[str]) -> NamingRows:
    """Rows of event channels that have a record's id in a value, in 15 or 18 characters: what identifies the delivery
    stays."""
    return NamingRows(None, partial(_has_text, [each[:15] for each in sorted(record_ids)]), _blank)


def quarantined_about(record_ids: Collection[str], at: Collection[tuple[str, int]]) -> NamingRows:
    """Rows of `quarantine` that have the record's id in their payload, or stand where its events do, by channel and
    position: position, schema and delivery stay."""
    texts = [each[:15] for each in sorted(record_ids)]

    def mask(rows: pa.Table) -> pa.Array:
        has_more = pc.or_(pc.is_valid(rows["payload"]), pc.not_equal(rows["error"], ERASED))
        places = zip(rows["channel"].to_pylist(), rows["position"].to_pylist(), strict=True)
        stands = pa.array([each in at for each in places], pa.bool_())
        return pc.and_(pc.or_(_has_text(texts, rows.select(["payload", "error"])), stands), _one(has_more))

    def left(rows: pa.Table) -> pa.Table:
        rows = _set(rows, "payload", pa.nulls(rows.num_rows, rows.schema.field("payload").type))
        return _set(rows, "error", pa.array([ERASED] * rows.num_rows, pa.string()))

    return NamingRows(("channel", "position", "payload", "error"), mask, left)


def suspicions_about(record_ids: Collection[str]) -> NamingRows:
    """Rows of `rolling_audits`: what was suspected of the record goes."""
    gone = frozenset(record_ids)

    def others(text: str | None) -> str | None:
        if text is None:
            return None
        return json.dumps([each for each in json.loads(text) if _names(each).isdisjoint(gone)])

    def left(rows: pa.Table) -> pa.Table:
        return _set(rows, "suspicions", pa.array(map(others, rows["suspicions"].to_pylist()), pa.string()))

    texts = sorted(record_ids)
    return NamingRows(("suspicions",), lambda rows: _has_text(texts, rows.select(["suspicions"])), left)


def _names(suspicion: object) -> set[str]:
    values = suspicion.values() if isinstance(suspicion, dict) else suspicion if isinstance(suspicion, list) else ()
    return {each for each in values if isinstance(each, str)}


def without_erased_events(warehouse: Warehouse, rows: pa.Table) -> pa.Table:
    """Return rows of an event channel, about to be landed, without what they say of records that were erased."""
    erased = erased_records(warehouse)
    if not erased.known or not rows.num_rows:
        return rows

    def names_one(text: str) -> bool:
        return any(erased.keeps_out(each) for each in _ID.findall(text))

    named = [False] * rows.num_rows
    for name in _texts(rows):
        for number, text in enumerate(rows[name].to_pylist()):
            if text is not None and not named[number]:
                named[number] = names_one(text.decode("latin-1") if isinstance(text, bytes) else text)
    mask = pa.array(named, pa.bool_())
    return NamingRows(None, lambda _: mask, _blank).without(rows) if any(named) else rows


def _texts(rows: pa.Table) -> list[str]:
    """Return the columns that may have an id in them."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return [of.name for of in rows.schema if of.name not in _KEPT and any(is_one(of.type) for is_one in kinds)]


def _has_text(texts: Collection[str], rows: pa.Table) -> pa.Array:
    found = pa.array([False] * rows.num_rows, pa.bool_())
    for name in _texts(rows):
        for text in texts:
            has = pc.match_substring(rows[name], text if pa.types.is_string(rows[name].type) else text.encode())
            found = pc.or_(found, _one(pc.fill_null(has, fill_value=False)))
    return found


def _blank(rows: pa.Table) -> pa.Table:
    for of in rows.schema:
        if of.name not in _KEPT and of.name != "#":
            rows = _set(rows, of.name, pa.nulls(rows.num_rows, of.type))
    return _set(rows, PROBLEM, pa.array([ERASED] * rows.num_rows, pa.string()))


def _set(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    number = rows.schema.get_field_index(name)
    return rows.set_column(number, rows.schema.field(number), values)


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
