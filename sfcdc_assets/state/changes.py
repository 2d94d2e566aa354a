"""Changes: one row for each record that an event names, sparse in its values.

A change carries a cell for each column that its event sets and none for the others, so that an unchanged field and a
field set to null can never be confused (guarantee 4).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.change_event import Cell, DecodedEvent
from sfcdc_assets.change_events.column_types import FORMS
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.errors import ChangeEventError
from sfcdc_assets.change_events.payload_form import Decoder, form_of
from sfcdc_assets.change_events.retyping import Retyping

CELL = pa.struct([("column", pa.int32()), ("s", pa.string()), ("d", pa.float64()), ("l", pa.int64())])
"""A value: the column's index, and the value in the member of its type; all null means null was written.

`s` strings; `d` doubles; `l` integers, booleans (0, 1), dates (days since 1970-01-01), timestamps (microseconds UTC).
"""

CHANGES = pa.schema(
    [
        ("key_range", pa.int32()),
        ("record_id", pa.string()),
        ("position", pa.int64()),
        ("change_type", pa.string()),
        ("commit_timestamp", pa.timestamp("us", "UTC")),
        ("commit_user", pa.string()),
        ("transaction_key", pa.string()),
        ("cells", pa.list_(CELL)),
        ("diff_columns", pa.list_(pa.int32())),
        ("enriched", pa.list_(CELL)),
        ("error", pa.string()),
        ("missing", pa.string()),
    ]
)
"""`diff_columns` are the columns whose cell holds a diff instead of the value. `enriched` are values the event carries
without having changed them: they are compared, never applied (`state.enrichment`). `error` says why the event's body
could not be decoded; its change type is then `UNDECODABLE`. `missing` says what the event changed without telling the
value: its cells are right, and not all."""

_EMPTY_ID = re.compile(r"0{14,15}AAA")

UNDECODABLE = "UNDECODABLE"

RAW_COLUMNS = (
    "channel",
    "position",
    "schema_id",
    "payload",
    "record_ids",
    "change_type",
    "commit_timestamp",
    "commit_user",
    "transaction_key",
)
"""What decoding needs of `raw_events`."""

_MEMBERS = "sdl"
"""Members of a cell, in the order of `CELL`."""


class ChangeReader:
    """Decodes rows of `raw_events` into changes, each event in its own form and with its own schema; keeps decoders."""

    def __init__(
        self, schemas: Mapping[str, str], columns: Sequence[Column], skipped: Collection[int] = frozenset()
    ) -> None:
        """`schemas` maps schema ids to Avro JSON; `columns` are the table's; events at `skipped` positions are left
        out (they were published twice)."""
        self._skipped = frozenset(skipped)
        self._schemas = schemas
        self._members = tuple(_MEMBERS.index(FORMS[column.type].member) for column in columns)
        self._retyped_at = sorted({column.kept_until for column in columns if column.kept_from})
        self._retypings = [Retyping(columns, position) for position in (-1, *self._retyped_at)]
        self._decoders: dict[tuple[str, str, int], Decoder] = {}

    def read(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """One change for each record id of each row, `key_range` unset. A body that cannot be decoded is a change of
        type `UNDECODABLE` with the reason, so that nothing else waits for it."""
        builder = _ChangesBuilder(self._members)
        for row in _rows(rows):
            if row["position"] in self._skipped:
                continue
            try:
                if row["payload"] is None:
                    raise PayloadDropped(row["position"])
                decoded = self._decode(row["schema_id"], row["payload"], row["position"])
            except ChangeEventError as error:
                builder.add(row, UNDECODABLE, None, str(error))
            else:
                builder.add(row, row["change_type"], decoded, None)
        return builder.build()

    def _decode(self, schema_id: str, payload: bytes, position: int) -> DecodedEvent:
        types = bisect_right(self._retyped_at, position)
        retyping = self._retypings[types]
        form = form_of(payload)
        key = (form.name, schema_id, types)
        decoder = self._decoders.get(key)
        if decoder is None:
            schema_json = self._schemas.get(schema_id)
            if schema_json is None:
                raise UnknownSchema(schema_id)
            decoder = self._decoders[key] = form.decoder(schema_json, retyping.columns)
        return retyping.today(decoder.decode(payload))


def names_one_record(record_id: str) -> bool:
    """False for a wildcard such as `001*` and for the empty id of an overflow event: these speak of the whole entity
    (docs/salesforce-streams.md, "Wildcard ids")."""
    return not record_id.endswith("*") and not _EMPTY_ID.fullmatch(record_id)


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


class _ChangesBuilder:
    """Collects changes column by column; Arrow arrays are built once at the end."""

    def __init__(self, members: Sequence[int]) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._cells = _CellLists(members)
        self._enriched = _CellLists(members)

    def add(self, row: Mapping[str, Any], change_type: str, decoded: DecodedEvent | None, error: str | None) -> None:
        cells, enriched = (decoded.cells, decoded.enriched) if decoded else ((), ())
        for record_id in row["record_ids"]:
            if not names_one_record(record_id):
                continue
            self._cells.add(cells)
            self._enriched.add(enriched)
            self._rows.append(
                (
                    record_id,
                    row["position"],
                    change_type,
                    row["commit_timestamp"],
                    row["commit_user"],
                    row["transaction_key"],
                    list(decoded.diff_columns) if decoded else [],
                    error,
                    decoded.missing if decoded else None,
                )
            )

    def build(self) -> pa.RecordBatch:
        transposed: Sequence[Sequence[object]] = list(zip(*self._rows, strict=True)) or [()] * 9
        record_id, position, change_type, timestamp, user, key, diff_columns, error, missing = transposed
        arrays = [
            pa.nulls(len(self._rows), pa.int32()),
            pa.array(record_id, pa.string()),
            pa.array(position, pa.int64()),
            pa.array(change_type, pa.string()),
            pa.array(timestamp, pa.timestamp("us", "UTC")),
            pa.array(user, pa.string()),
            pa.array(key, pa.string()),
            self._cells.build(),
            pa.array(diff_columns, pa.list_(pa.int32())),
            self._enriched.build(),
            pa.array(error, pa.string()),
            pa.array(missing, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=CHANGES)


class _CellLists:
    """A list of cells for each change."""

    def __init__(self, members: Sequence[int]) -> None:
        """`members`: for each column the member of `CELL` that holds its values."""
        self._members = members
        self._offsets = [0]
        self._column: list[int] = []
        self._values: tuple[list[object], list[object], list[object]] = ([], [], [])

    def add(self, cells: Collection[Cell]) -> None:
        if not cells:
            self._offsets.append(self._offsets[-1])
            return
        members = self._members
        strings, doubles, longs = self._values
        for index, value in cells:
            member = members[index]
            self._column.append(index)
            strings.append(value if member == 0 else None)
            doubles.append(value if member == 1 else None)
            longs.append(int(value) if member == 2 and value is not None else None)
        self._offsets.append(len(self._column))

    def build(self) -> pa.ListArray:
        strings, doubles, longs = self._values
        cells = pa.StructArray.from_arrays(
            [
                pa.array(self._column, pa.int32()),
                pa.array(strings, pa.string()),
                pa.array(doubles, pa.float64()),
                pa.array(longs, pa.int64()),
            ],
            fields=list(CELL),
        )
        return pa.ListArray.from_arrays(pa.array(self._offsets, pa.int32()), cells)


def _rows(rows: pa.RecordBatch | pa.Table) -> Iterable[dict[str, Any]]:
    columns = [rows.column(name).to_pylist() if name != "commit_timestamp" else _micros(rows) for name in RAW_COLUMNS]
    return (dict(zip(RAW_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))


def _micros(rows: pa.RecordBatch | pa.Table) -> list[int | None]:
    """Commit timestamps as integers: a datetime object for each row would cost more than decoding the event."""
    return rows.column("commit_timestamp").cast(pa.int64()).to_pylist()
