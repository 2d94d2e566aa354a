"""Events of `raw_events` decoded: many at once where that can be done, the others one by one.

Which way an event was read makes no difference to what is read: the one by one reading is the reference, and the other
leaves to it whatever is not plain (see `change_events.batch`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.cell_lists import CELL, CellLists, members_of
from sfcdc_assets.change_events.change_event import DecodedEvent
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.change_events.errors import ChangeEventError, EventSchemaError
from sfcdc_assets.change_events.event_schema import SchemaField, parse_event_schema, schema_fields
from sfcdc_assets.change_events.kinds_of_time import ALL_SETTLED, Unsettled
from sfcdc_assets.change_events.payload_form import (
    BY_FIRST_BYTE,
    Decoder,
    ManyDecoder,
    PayloadForm,
    form_named,
    form_of,
)
from sfcdc_assets.change_events.retyping import Retyping, positions_of_changes
from sfcdc_assets.change_events.wanted_field import carried_columns, leaves_of_columns

DECODED = pa.schema(
    [
        ("cells", pa.list_(CELL)),
        ("diff_columns", pa.list_(pa.int32())),
        ("enriched", pa.list_(CELL)),
        ("error", pa.string()),
        ("missing", pa.string()),
        ("unproven", pa.list_(pa.int32())),
    ]
)
"""What an event says, one a row; see `state.changes.CHANGES`. Cells and diffs are in the order of their columns."""

FEWEST_AT_ONCE = 32
FIELDS_AT_ONCE = 16_000
FIELDS_OF_A_HEADER = 70
"""Fewer events than the first, or events with fewer fields in all than the second, are read sooner one by one: to do so
costs as much for each event as so many fields, and for each field; to read many at once costs milliseconds for any."""

BYTES_AT_ONCE = 16 * 1024 * 1024
"""Payloads are decoded in pieces of about so many bytes: what large events cost in memory."""

Rows = npt.NDArray[np.int64]
_Key = tuple[str, str, int]
"""A decoder's form, schema id, and which of the types that columns had."""


class UnknownSchema(ChangeEventError):
    """An event names a schema that the org would not give out, or none."""

    def __init__(self, schema_id: str) -> None:
        self.schema_id = schema_id
        problem = f"Schema {schema_id} is not known" if schema_id else "The event names no schema"
        super().__init__(f"{problem}, and without it the event cannot be read.")


class PayloadDropped(ChangeEventError):
    """An event is to be applied whose payload was deleted."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(
            f"The payload of the event at position {position} was dropped after its retention; "
            "the records it names have to be read back from the org."
        )


class EventReader:
    """Reads payloads, each in its own form and with its own schema; keeps decoders."""

    def __init__(
        self, schemas: Mapping[str, str], columns: Sequence[Column], unsettled: Unsettled = ALL_SETTLED
    ) -> None:
        """`schemas` maps schema ids to Avro JSON; `columns` are the table's; `unsettled` are events that may be of
        other types than these."""
        self._schemas = schemas
        self._unsettled = unsettled
        self._members = members_of(columns)
        self._columns = columns
        self._retyped_at = np.array(sorted(positions_of_changes(columns)), np.int64)
        self._retypings: dict[tuple[str, int], Retyping] = {}
        self._decoders: dict[_Key, Decoder] = {}
        self._many: dict[_Key, ManyDecoder | None] = {}

    def read(self, schema_ids: pa.ChunkedArray, positions: pa.ChunkedArray, payloads: pa.ChunkedArray) -> pa.Table:
        """Return `DECODED`, one row for each of the payloads."""
        if len(payloads) < FEWEST_AT_ONCE:
            return self._one_by_one(schema_ids, positions, payloads)
        parts: list[pa.Table] = []
        order: list[Rows] = []
        left = np.ones(len(payloads), bool)
        is_unsettled = self._unsettled.among(positions.to_numpy())
        for key, of_key in self._groups(schema_ids, positions, payloads):
            many = self._many_decoder(key)
            if many is None:
                continue
            rows = of_key[~is_unsettled[of_key]] if self._retyping(*key[1:]).has_times else of_key
            if not _pays(len(rows), len(self._members)):
                continue
            for piece in _pieces(payloads, rows):
                decoded = many.decode(payloads.take(pa.array(piece)).combine_chunks())
                taken = piece[decoded.taken]
                left[taken] = False
                nothing = pa.nulls(len(taken), pa.string())
                proven = pa.nulls(len(taken), DECODED.field("unproven").type)
                arrays = [decoded.cells, decoded.diff_columns, decoded.enriched, nothing, nothing, proven]
                parts.append(pa.Table.from_arrays(arrays, schema=DECODED))
                order.append(taken)
        if left.any():
            order.append(np.flatnonzero(left))
            rest = pa.array(order[-1])
            parts.append(self._one_by_one(schema_ids.take(rest), positions.take(rest), payloads.take(rest)))
        read, ordered = pa.concat_tables(parts), np.concatenate(order)
        if not np.array_equal(ordered, np.arange(len(ordered))):
            read = read.take(pa.array(np.argsort(ordered)))
        return read

    def lacked(self, schema_ids: pa.ChunkedArray, positions: pa.ChunkedArray) -> Mapping[int, Sequence[int]]:
        """Return of events of known schemas: event -> numbers of the columns that the table had at its position, and
        of which its schema says nothing: as it was made the object lacked their fields, or hid them. Events that lack
        none are left out, and columns whose fields are known to be gone since before the event."""
        (names, of_name), at = _codes(schema_ids), positions.to_numpy()
        of_row = np.ravel_multi_index(
            (of_name, np.searchsorted(self._retyped_at, at, side="right")), (len(names), len(self._retyped_at) + 1)
        )
        found: dict[int, Sequence[int]] = {}
        for key in np.unique(of_row):
            rows = np.flatnonzero(of_row == key)
            if columns := self._lacked_by(names[int(key) // (len(self._retyped_at) + 1)], int(at[rows].min())):
                found |= dict.fromkeys(rows.tolist(), columns)
        return found

    def _lacked_by(self, schema_id: str, position: int) -> list[int]:
        then = self._retyping(schema_id, bisect_right(self._retyped_at, position)).columns
        carried = carried_columns(schema_fields(parse_event_schema(self._schemas[schema_id])), then)
        return [
            number
            for number, column in enumerate(self._columns)
            if number not in carried
            and column.came_at <= position
            and column.kept_from is None
            and column.name != ID_COLUMN.name
            and not (column.is_absent and column.absences[-1].since <= position)
        ]

    def _one_by_one(
        self, schema_ids: pa.ChunkedArray, positions: pa.ChunkedArray, payloads: pa.ChunkedArray
    ) -> pa.Table:
        """Decode one by one, as the reference does."""
        events = _Events(self._members)
        is_unsettled = self._unsettled.among(positions.to_numpy())
        for schema_id, position, payload, is_open in zip(
            schema_ids.to_pylist(), positions.to_pylist(), payloads.to_pylist(), is_unsettled, strict=True
        ):
            try:
                if payload is None:
                    raise PayloadDropped(position)
                types, form = bisect_right(self._retyped_at, position), form_of(payload)
                decoded = self._decoder((form.name, schema_id, types), form).decode(payload)
                retyping = self._retyping(schema_id, types)
                if is_open and not form.shows_kinds:
                    decoded = retyping.left_open(decoded, waits=self._unsettled.waits(position))
                events.add(retyping.today(decoded))
            except ChangeEventError as error:
                events.add_unreadable(error)
        return events.build()

    def _groups(
        self, schema_ids: pa.ChunkedArray, positions: pa.ChunkedArray, payloads: pa.ChunkedArray
    ) -> Iterator[tuple[_Key, Rows]]:
        """Yield the rows with a payload that the same decoder reads, for each decoder."""
        nothing = pa.nulls(len(payloads), pa.binary())
        first = pc.binary_slice(payloads.cast(pa.binary()), 0, 1) if BY_FIRST_BYTE else nothing
        types = np.searchsorted(self._retyped_at, positions.to_numpy(), side="right")
        (names, of_name), (firsts, of_first) = _codes(schema_ids), _codes(first)
        shape = (len(names), len(firsts), len(self._retyped_at) + 1)
        is_there = payloads.is_valid().to_numpy()
        of_row = np.ravel_multi_index((of_name, of_first, types), shape)
        for key in np.flatnonzero(np.bincount(of_row)):
            name, byte, type_ = (int(place) for place in np.unravel_index(key, shape))
            yield (form_of(firsts[byte] or b"").name, names[name], type_), np.flatnonzero((of_row == key) & is_there)

    def _decoder(self, key: _Key, form: PayloadForm) -> Decoder:
        if key not in self._decoders:
            _, schema_id, types = key
            schema_json = self._schemas.get(schema_id)
            if schema_json is None:
                raise UnknownSchema(schema_id)
            self._decoders[key] = form.decoder(schema_json, self._retyping(schema_id, types).columns)
        return self._decoders[key]

    def _retyping(self, schema_id: str, types: int) -> Retyping:
        """Return the types of a known schema's events after so many changes. Raises `EventSchemaError`."""
        key = (schema_id, types)
        if key not in self._retypings:
            leaves: dict[int, SchemaField] = {}
            if len(self._retyped_at):
                layout = schema_fields(parse_event_schema(self._schemas[schema_id]))
                leaves = leaves_of_columns(layout, self._columns)
            position = int(self._retyped_at[types - 1]) if types else 0
            self._retypings[key] = Retyping(self._columns, position, leaves)
        return self._retypings[key]

    def _many_decoder(self, key: _Key) -> ManyDecoder | None:
        """None where there is none, or where the reference has something to say about the schema."""
        if key not in self._many:
            name, schema_id, types = key
            schema_json = self._schemas.get(schema_id)
            self._many[key] = None
            with suppress(EventSchemaError):
                retyping = self._retyping(schema_id, types) if schema_json is not None else None
                if schema_json is not None and retyping is not None and not retyping.is_needed:
                    self._many[key] = form_named(name).many_decoder(schema_json, retyping.columns)
        return self._many[key]


class _Events:
    """Collects what events say, one after another; Arrow arrays are built once at the end."""

    def __init__(self, members: Sequence[int]) -> None:
        self._cells, self._enriched = CellLists(members), CellLists(members)
        self._diffs: list[list[int]] = []
        self._errors: list[str | None] = []
        self._missing: list[str | None] = []
        self._unproven: list[list[int] | None] = []

    def add(self, event: DecodedEvent) -> None:
        """Add the next event."""
        self._cells.add(event.cells)
        self._enriched.add(event.enriched)
        self._diffs.append(sorted(event.diff_columns))
        self._errors.append(None)
        self._missing.append(event.missing)
        self._unproven.append(sorted(event.unproven) or None)

    def add_unreadable(self, error: ChangeEventError) -> None:
        """Add the next event, which cannot be read."""
        self._cells.add(())
        self._enriched.add(())
        self._diffs.append([])
        self._errors.append(str(error))
        self._missing.append(None)
        self._unproven.append(None)

    def build(self) -> pa.Table:
        """All of them, as `DECODED`."""
        diffs = pa.array(self._diffs, pa.list_(pa.int32()))
        error, missing = pa.array(self._errors, pa.string()), pa.array(self._missing, pa.string())
        unproven = pa.array(self._unproven, DECODED.field("unproven").type)
        return pa.Table.from_arrays(
            [self._cells.build(), diffs, self._enriched.build(), error, missing, unproven], schema=DECODED
        )


def _pays(events: int, columns: int) -> bool:
    """Return whether to read so many events at once."""
    return events >= FEWEST_AT_ONCE and events * (FIELDS_OF_A_HEADER + columns) >= FIELDS_AT_ONCE


def _codes(column: pa.ChunkedArray | pa.Array) -> tuple[list[Any], Rows]:
    """Return the values that occur, and for each row which of them it has."""
    encoded = column.dictionary_encode("encode")
    encoded = encoded.unify_dictionaries().combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _pieces(payloads: pa.ChunkedArray, rows: Rows) -> list[Rows]:
    """Return the rows, in pieces of about `BYTES_AT_ONCE`."""
    sizes = pc.fill_null(pc.binary_length(payloads), 0).to_numpy().astype(np.int64)[rows]
    return np.split(rows, np.flatnonzero(np.diff(np.cumsum(sizes) // BYTES_AT_ONCE)) + 1)
