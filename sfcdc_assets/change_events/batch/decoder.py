"""The batch decoder: many Avro payloads of one schema to the cells of one entity's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfcdc_assets.change_events.batch.bitmaps import BitmapReader
from sfcdc_assets.change_events.batch.body_values import BodyValues, body_values
from sfcdc_assets.change_events.batch.cell_arrays import NOTHING, Cells, ValueArrays
from sfcdc_assets.change_events.batch.headers import HeaderReader, Headers, texts_of
from sfcdc_assets.change_events.batch.named_slots import Marks, NamedSlots, is_diff, is_nulled
from sfcdc_assets.change_events.batch.payload_bytes import Flags, PayloadBytes, Places
from sfcdc_assets.change_events.batch.payload_cursors import Reading, Texts
from sfcdc_assets.change_events.batch.slots import Kind, NotReadInBatches, Slots
from sfcdc_assets.change_events.cell_lists import members_of
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.event_schema import header_schema, parse_event_schema


@dataclass(frozen=True)
class DecodedBatch:
    """What the events set, one entry for each of the payloads that were taken, in their order. The others are left to
    the reference. No event that is taken changed something without telling its value."""

    taken: Flags
    cells: pa.ListArray
    diff_columns: pa.ListArray
    enriched: pa.ListArray


class BatchDecoder:
    """What `EventDecoder` says of each payload, for as many at once as there are."""

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        """Compile the schema. Raise `EventSchemaError` as `EventDecoder` does, and `NotReadInBatches`."""
        schema = parse_event_schema(schema_json)
        self._headers = HeaderReader(header_schema(schema))
        self._slots = Slots(schema, columns)
        self._named = NamedSlots(self._slots, BitmapReader(self._slots))
        self._members = np.array(members_of(columns), np.uint8)
        types = [ChangeType.of_symbol(symbol) for symbol in self._headers.symbols]
        self._is_update = np.array([each is ChangeType.UPDATE for each in types])
        self._sets_all = np.array([each.carries_all_fields for each in types])
        self._enriches = np.array([each in (ChangeType.UPDATE, ChangeType.DELETE) for each in types])

    def decode(self, payloads: pa.Array) -> DecodedBatch:
        """`payloads`: binary, none of them null."""
        source = PayloadBytes(payloads)
        reading, slots = Reading(source), self._slots
        headers = self._headers.read(reading)
        values = body_values(reading, slots)
        switched = values.row[values.kind == Kind.RECORD]
        if len(switched):
            reading.give_up(switched)
        texts = _texts(reading, headers, values)
        kind = np.clip(headers.numbers["changeType"], 0, len(self._is_update) - 1)
        is_update, sets_all = self._is_update[kind] & reading.ok, self._sets_all[kind] & reading.ok
        marks = self._named.marks(reading, headers.texts, is_update, sets_all)
        arrays = ValueArrays(source, values, texts, slots, self._members)
        keys = values.row * slots.count + values.order
        row, cells, diffs = self._set(reading, marks, keys, arrays)
        slot = slots.of_order[values.order]
        claimed = self._claimed(self._enriches[kind], marks, values.row, slot)
        enriched = arrays.cells(slot[claimed], claimed)
        return DecodedBatch(
            reading.ok,
            _lists(row, cells.structs(slots), reading.ok),
            _lists(row[diffs], pa.array(slots.column[cells.slot[diffs]]), reading.ok),
            _enriched_values(values.row[claimed], enriched, slots, reading.ok),
        )

    def _set(self, reading: Reading, marks: Marks, keys: Places, arrays: ValueArrays) -> tuple[Places, Cells, Places]:
        """Return the rows of the cells that events set, these cells, and which of them hold diffs."""
        slots = self._slots
        wanted = marks[:, : slots.wanted]
        row, rank = np.divmod(np.flatnonzero(wanted != 0), max(slots.wanted, 1))
        if not reading.ok.all():
            kept = reading.ok[row]
            row, rank = row[kept], rank[kept]
        slot, of_named = slots.of_rank[rank], wanted[row, rank]
        at = _places(keys, row * slots.count + slots.order[slot])
        at[is_nulled(of_named)] = -1
        cells = arrays.cells(slot, at)
        if cells.unfit.any():
            reading.give_up(row[cells.unfit])
        diffs = is_diff(of_named) & (slots.child_count[slot] == 0) & (cells.has != NOTHING)
        return row, cells, np.flatnonzero(diffs)

    def _claimed(self, enriches: Flags, marks: Marks, row: Places, slot: Places) -> Places:
        """Return the values that events carry beside what they set, in the order of events and columns."""
        rank = self._slots.rank[slot]
        found = np.flatnonzero(enriches[row] & (rank < self._slots.wanted) & (marks[row, rank] == 0))
        return found[np.lexsort((rank[found], row[found]))]


def batch_decoder(schema_json: str, columns: Sequence[Column]) -> BatchDecoder | None:
    """None for a schema that is read event by event only. Raises `EventSchemaError`."""
    try:
        return BatchDecoder(schema_json, columns)
    except NotReadInBatches:
        return None


def _texts(reading: Reading, headers: Headers, values: BodyValues) -> pa.StringArray:
    """Return the texts of the values. Payloads with a text that is not UTF-8, in the header or in any field, are given
    up."""
    is_text = values.kind == Kind.STRING
    for _, texts in texts_of(headers, reading.ok):
        reading.checked(texts)
    return reading.checked(Texts(values.row[is_text], values.place[is_text], values.size[is_text]))


def _places(keys: Places, wanted: Places) -> Places:
    """Return where the wanted ones are among the keys, which are sorted; -1 for those that are not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    at[keys[at] != wanted] = -1
    return at


def _lists(rows: Places, items: pa.Array, taken: Flags) -> pa.ListArray:
    """Return the items of each row that was taken, as lists."""
    kept = taken[rows]
    if not kept.all():
        items, rows = items.filter(pa.array(kept)), rows[kept]
    counts = np.bincount(rows, minlength=len(taken))[taken]
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(counts)), pa.int32()), items)


def _enriched_values(rows: Places, enriched: Cells, slots: Slots, taken: Flags) -> pa.ListArray:
    """Return those that say something: nothing depends on a value that its column cannot hold."""
    items = enriched.structs(slots)
    said = ~enriched.unfit & (enriched.has != NOTHING)
    if not said.all():
        items, rows = items.filter(pa.array(said)), rows[said]
    return _lists(rows, items, taken)
