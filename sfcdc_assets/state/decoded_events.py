"""Events of `raw_events` decoded: many at once where that can be done, the others one by one.

Which way an event was read makes no difference to what is read: the one by one reading is the reference, and the other
leaves to it whatever is not plain (see `change_events.batch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.cell_lists import CELL, CellLists, members_of
from sfcdc_assets.change_events.change_event import DecodedEvent
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.errors import ChangeEventError
from sfcdc_assets.change_events.payload_form import AVRO, BY_FIRST_BYTE, Decoder, ManyDecoder, PayloadForm
from sfcdc_assets.change_events.retyping import Retyping

DECODED = pa.schema(
    [
        ("cells", pa.list_(CELL)),
        ("diff_columns", pa.list_(pa.int32())),
        ("enriched", pa.list_(CELL)),
        ("error", pa.string()),
        ("missing", pa.string()),
    ]
)
"""What an event says, one a row; see `state.changes.CHANGES`. Cells and diffs are in the order of their columns."""

FEWEST_AT_ONCE = 16
"""Fewer events are read sooner one by one."""

BYTES_AT_ONCE = 16 * 1024 * 1024
"""Payloads are decoded in pieces of about so many bytes: what large events cost in memory."""

Rows = npt.NDArray[np.int64]


class UnknownSchema(ChangeEventError):
    """An event names a schema that the org would not give out, or none."""

    def __init__(self, schema_id: str) -> None:
        self.schema_id = schema_id
        problem = f"Schema {schema_id} is not known" if schema_id else "The event names no schema"
        super().__init__(f"{problem}, and without it the event cannot be read.")


class PayloadDropped(ChangeEventError):
    """An event is to be applied whose payload was given up."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(
            f"The payload of the event at position {position} was dropped after its retention; "
            "the records it names have to be read back from the org."
        )


class EventReader:
    """Reads payloads, each in its own form and with its own schema; keeps decoders."""

    def __init__(self, schemas: Mapping[str, str], columns: Sequence[Column]) -> None:
        """`schemas` maps schema ids to Avro JSON; `columns` are the table's."""
        self._schemas = schemas
        self._members = members_of(columns)
        self._retyped_at = np.array(sorted({column.kept_until for column in columns if column.kept_from}), np.int64)
        self._retypings = [Retyping(columns, int(position)) for position in (-1, *self._retyped_at)]
        self._decoders: dict[tuple[str, str, int], tuple[Decoder, ManyDecoder | None]] = {}

    def read(self, schema_ids: pa.ChunkedArray, positions: pa.ChunkedArray, payloads: pa.ChunkedArray) -> pa.Table:
        """`DECODED`, one row for each of the payloads."""
        parts: list[pa.Table] = []
        order: list[Rows] = []
        for (form, schema_id, types), rows in self._groups(schema_ids, positions, payloads):
            own = payloads if len(rows) == len(payloads) else payloads.take(pa.array(rows))
            at = positions if len(rows) == len(payloads) else positions.take(pa.array(rows))
            for of_part, part in self._group(form, schema_id, types, at, own):
                parts.append(part)
                order.append(rows[of_part])
        read = pa.concat_tables([DECODED.empty_table(), *parts])
        ordered = np.concatenate([np.empty(0, np.int64), *order])
        if not np.array_equal(ordered, np.arange(len(ordered))):
            read = read.take(pa.array(np.argsort(ordered)))
        return read

    def _groups(
        self, schema_ids: pa.ChunkedArray, positions: pa.ChunkedArray, payloads: pa.ChunkedArray
    ) -> Iterator[tuple[tuple[PayloadForm, str, int], Rows]]:
        """The rows that are read by the same decoder, for each of them."""
        if not len(payloads):
            return
        nothing = pa.nulls(len(payloads), pa.binary())
        first = pc.binary_slice(payloads.cast(pa.binary()), 0, 1) if BY_FIRST_BYTE else nothing
        types = np.searchsorted(self._retyped_at, positions.to_numpy(), side="right")
        (names, of_name), (firsts, of_first) = _codes(schema_ids), _codes(first)
        shape = (len(names), len(firsts), len(self._retypings))
        of_row = np.ravel_multi_index((of_name, of_first, types), shape)
        for key in np.flatnonzero(np.bincount(of_row)):
            name, byte, type_ = (int(place) for place in np.unravel_index(key, shape))
            form = BY_FIRST_BYTE.get(firsts[byte] or b"", AVRO)
            yield (form, names[name], type_), np.flatnonzero(of_row == key)

    def _group(
        self, form: PayloadForm, schema_id: str, types: int, positions: pa.ChunkedArray, payloads: pa.ChunkedArray
    ) -> Iterator[tuple[Rows, pa.Table]]:
        """Parts of what is read, each with the places of its rows among the payloads."""
        left = np.ones(len(payloads), bool)
        try:
            decoder, many = self._decoder(form, schema_id, types)
        except ChangeEventError as error:
            decoder, many = _Refusing(error), None
        is_there = payloads.is_valid().to_numpy(zero_copy_only=False)
        if many is not None and is_there.sum() >= FEWEST_AT_ONCE:
            for rows in _pieces(payloads, is_there):
                decoded = many.decode(payloads.take(pa.array(rows)).combine_chunks())
                taken = rows[decoded.taken]
                left[taken] = False
                nothing = pa.nulls(len(taken), pa.string())
                arrays = [decoded.cells, decoded.diff_columns, decoded.enriched, nothing, nothing]
                yield taken, pa.Table.from_arrays(arrays, schema=DECODED)
        rows = np.flatnonzero(left)
        if len(rows):
            one_by_one = _OneByOne(self._members, decoder, self._retypings[types])
            chosen = pa.array(rows)
            for position, payload in zip(
                positions.take(chosen).to_pylist(), payloads.take(chosen).to_pylist(), strict=True
            ):
                one_by_one.add(position, payload)
            yield rows, one_by_one.build()

    def _decoder(self, form: PayloadForm, schema_id: str, types: int) -> tuple[Decoder, ManyDecoder | None]:
        key = (form.name, schema_id, types)
        if key not in self._decoders:
            schema_json = self._schemas.get(schema_id)
            if schema_json is None:
                raise UnknownSchema(schema_id)
            retyping = self._retypings[types]
            many = None if retyping.is_needed else form.many_decoder(schema_json, retyping.columns)
            self._decoders[key] = form.decoder(schema_json, retyping.columns), many
        return self._decoders[key]


class _Refusing:
    """In the place of a decoder that cannot be made."""

    def __init__(self, error: ChangeEventError) -> None:
        self._error = error

    def decode(self, payload: bytes) -> DecodedEvent:
        raise self._error


class _OneByOne:
    """Reads events one after another; Arrow arrays are built once at the end."""

    def __init__(self, members: Sequence[int], decoder: Decoder, retyping: Retyping) -> None:
        self._decoder = decoder
        self._retyping = retyping
        self._cells, self._enriched = CellLists(members), CellLists(members)
        self._diffs: list[list[int]] = []
        self._errors: list[str | None] = []
        self._missing: list[str | None] = []

    def add(self, position: int, payload: bytes | None) -> None:
        """An event: what it says, or why that cannot be read."""
        decoded, problem = None, None
        try:
            if payload is None:
                raise PayloadDropped(position)
            decoded = self._retyping.today(self._decoder.decode(payload))
        except ChangeEventError as error:
            problem = str(error)
        self._cells.add(decoded.cells if decoded else ())
        self._enriched.add(decoded.enriched if decoded else ())
        self._diffs.append(sorted(decoded.diff_columns) if decoded else [])
        self._errors.append(problem)
        self._missing.append(decoded.missing if decoded else None)

    def build(self) -> pa.Table:
        """All of them, as `DECODED`."""
        diffs = pa.array(self._diffs, pa.list_(pa.int32()))
        error, missing = pa.array(self._errors, pa.string()), pa.array(self._missing, pa.string())
        return pa.Table.from_arrays(
            [self._cells.build(), diffs, self._enriched.build(), error, missing], schema=DECODED
        )


def _codes(column: pa.ChunkedArray | pa.Array) -> tuple[list[Any], Rows]:
    """The values that occur, and for each row which of them it has."""
    encoded = column.dictionary_encode("encode")
    encoded = encoded.unify_dictionaries().combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _pieces(payloads: pa.ChunkedArray, is_there: npt.NDArray[np.bool_]) -> list[Rows]:
    """The rows that have a payload, in pieces of about `BYTES_AT_ONCE`."""
    sizes = pc.fill_null(pc.binary_length(payloads), 0).to_numpy().astype(np.int64)
    rows = np.flatnonzero(is_there)
    before = np.cumsum(sizes[rows]) // BYTES_AT_ONCE
    return np.split(rows, np.flatnonzero(np.diff(before)) + 1)
