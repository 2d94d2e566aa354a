"""The hash of a table's rows, whatever their order. docs/certificates.md specifies it to the byte."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256, shake_256
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.runtime.errors import SfcdcError

BYTES = 256
"""Of a row's hash. A sum of so many is not met by chance, nor, as far as is known, by anybody who tries."""
_MODULUS = 1 << (8 * BYTES)
_NAN = b"\x7f\xf8\x00\x00\x00\x00\x00\x00"


class NotHashable(SfcdcError):
    """A column has a type that the rows' hash does not know."""

    def __init__(self, column: str, kind: pa.DataType) -> None:
        super().__init__(f"{column}: rows with {kind} have no hash. sfcdc writes no such column; see who added it.")


@dataclass(frozen=True)
class RowsHash:
    """How many rows, and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def __add__(self, other: RowsHash) -> RowsHash:
        return RowsHash(self.rows + other.rows, (self.total + other.total) % _MODULUS)

    @property
    def digest(self) -> str:
        """The sum as the certificate has it: the lower-case hex SHA-256 of its 256 bytes."""
        return sha256(self.total.to_bytes(BYTES, "big")).hexdigest()


def hash_rows(parts: Iterable[pa.Table]) -> RowsHash:
    """Return the hash of all rows of the parts; memory holds one. Raises `NotHashable`."""
    found = RowsHash()
    for part in parts:
        for batch in part.to_batches(max_chunksize=8_192):
            found += _of_batch(batch)
    return found


def _of_batch(rows: pa.RecordBatch) -> RowsHash:
    columns = [_column(name, rows[name]) for name in sorted(rows.schema.names)]
    total = 0
    for fields in zip(*columns, strict=True):
        total += int.from_bytes(shake_256(b"".join(fields)).digest(BYTES), "big")
    return RowsHash(rows.num_rows, total % _MODULUS)


def _column(name: str, values: pa.Array) -> list[bytes]:
    """Return of each row the name and the value of a column; nothing where it is null."""
    plain, written = _writer(name, values)
    prefix = _field(name.encode())
    return [b"" if each is None else prefix + _field(written(each)) for each in plain.to_pylist()]


def _field(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _writer(name: str, values: pa.Array) -> tuple[pa.Array, Callable[[Any], bytes]]:
    """Return values of a column in Python's plainest type, and what writes one."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return values, lambda each: b"b1" if each else b"b0"
    if pa.types.is_integer(kind):
        return values, lambda each: b"i%d" % each
    if pa.types.is_floating(kind):
        return values, lambda each: b"d" + _double(each)
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()), lambda each: b"D%d" % each
    if pa.types.is_timestamp(kind):
        return pc.cast(values, pa.timestamp("us", kind.tz)).cast(pa.int64()), lambda each: b"t%d" % each
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values, lambda each: b"s" + each.encode()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return values, lambda each: b"x" + each
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _, written = _writer(name, pa.array([], kind.value_type))
        if pa.types.is_temporal(kind.value_type):
            raise NotHashable(name, kind)
        return values, lambda each: b"l" + b"".join(_field(b"n" if one is None else written(one)) for one in each)
    raise NotHashable(name, kind)


def _double(number: float) -> bytes:
    if isnan(number):
        return _NAN
    return struct.pack(">d", number + 0.0)  # of the two zeros one
