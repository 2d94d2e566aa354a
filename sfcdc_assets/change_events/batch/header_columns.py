"""What many headers say, as columns of `raw_events`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.batch.headers import HeaderReader, Headers, texts_of
from sfcdc_assets.change_events.batch.payload_bytes import Flags, PayloadBytes
from sfcdc_assets.change_events.batch.payload_cursors import Reading
from sfcdc_assets.change_events.batch.slots import NotReadInBatches
from sfcdc_assets.change_events.change_event import ChangeEventHeader
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.header import header_record

UTC_TIMESTAMP = pa.timestamp("us", "UTC")

HEADER_COLUMNS = pa.schema(
    [
        ("entity_name", pa.string()),
        ("record_ids", pa.list_(pa.string())),
        ("change_type", pa.string()),
        ("transaction_key", pa.string()),
        ("sequence_number", pa.int32()),
        ("commit_timestamp", UTC_TIMESTAMP),
        ("commit_number", pa.int64()),
        ("commit_user", pa.string()),
        ("change_origin", pa.string()),
    ]
)


class HeaderColumns:
    """What `read_header` says of each payload, for as many at once as there are."""

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        """Take `schema`: as for `read_header`. Raises `EventSchemaError` and `NotReadInBatches`."""
        self._reader = HeaderReader(header_record(schema))
        self._types = pa.array([str(ChangeType.of_symbol(symbol)) for symbol in self._reader.symbols], pa.string())

    def read(self, payloads: pa.Array) -> tuple[Flags, pa.Table]:
        """Return which of the payloads were taken, and `HEADER_COLUMNS` of these. The others are left to
        `read_header`."""
        reading = Reading(PayloadBytes(payloads))
        headers = self._reader.read(reading)
        columns = self._columns(reading, headers)
        if len(columns) != reading.ok.sum():
            columns = self._columns(reading, headers)  # now without those that have a text which is not UTF-8
        return reading.ok, columns

    def _columns(self, reading: Reading, headers: Headers) -> pa.Table:
        rows = np.flatnonzero(reading.ok)
        texts = {name: reading.checked(of_field) for name, of_field in texts_of(headers, reading.ok.copy())}
        numbers = {name: pa.array(of_field[rows]) for name, of_field in headers.numbers.items()}
        of_ids = headers.texts["recordIds"].rows
        counts = np.bincount(of_ids, minlength=len(reading.at))[rows]
        ends = pa.array(np.append(0, np.cumsum(counts)), pa.int32())
        columns = {
            "entity_name": texts["entityName"],
            "record_ids": pa.ListArray.from_arrays(ends, texts["recordIds"]),
            "change_type": self._types.take(numbers["changeType"]),
            "transaction_key": texts["transactionKey"],
            "sequence_number": numbers["sequenceNumber"].cast(pa.int32()),
            "commit_timestamp": pc.multiply(numbers["commitTimestamp"], 1000).cast(UTC_TIMESTAMP),
            "commit_number": numbers["commitNumber"],
            "commit_user": texts["commitUser"],
            "change_origin": texts["changeOrigin"],
        }
        return pa.table(columns, schema=HEADER_COLUMNS)


def header_columns(schema: Mapping[str, Any] | None) -> HeaderColumns | None:
    """None for a schema whose headers are read one by one only. Raises `EventSchemaError`."""
    try:
        return HeaderColumns(schema)
    except NotReadInBatches:
        return None


def header_row(header: ChangeEventHeader) -> dict[str, object]:
    """Return a header as a row of `HEADER_COLUMNS`."""
    return {
        "entity_name": header.entity_name,
        "record_ids": list(header.record_ids),
        "change_type": str(header.change_type),
        "transaction_key": header.transaction_key,
        "sequence_number": header.sequence_number,
        "commit_timestamp": header.commit_timestamp * 1000,
        "commit_number": header.commit_number,
        "commit_user": header.commit_user,
        "change_origin": header.change_origin,
    }
