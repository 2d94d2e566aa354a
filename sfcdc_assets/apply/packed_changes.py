"""Changes on their way through a shuffle: those of one key range as one value.

Spark would make a row of its own of each change with all its cells, sort these rows, and make Arrow of them again: of a
backlog's CPU time that was a half. Packed, a task sends a few values for each key range, and the JVM passes them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from sfcdc_assets.apply.job_layout import PACKED_CHANGES, Placement
from sfcdc_assets.key_ranges.frames import gathered
from sfcdc_assets.timeline.changes import CHANGES

AT_ONCE = 32_000_000
"""Bytes of changes that a task gathers before it packs them: of a table with hundreds of key ranges each value has some
dozens of changes then, beside 4 kB that any value takes."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def packed(placement: Placement, number: int, changes: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the changes (`CHANGES`) of an entity by its number in the job, packed (`PACKED_CHANGES`)."""
    for table in gathered((pa.Table.from_batches([each]) for each in changes), size=AT_ONCE):
        for key_range, of_range in _by_key_range(table):
            row = {
                "partition_key": placement.key_of(number, key_range),
                "entity": number,
                "key_range": key_range,
                "changes": _as_stream(of_range).to_pybytes(),
            }
            yield pa.RecordBatch.from_pylist([row], schema=PACKED_CHANGES)


def unpacked(rows: pa.Table) -> pa.Table:
    """Return the changes (`CHANGES`) of packed ones, in any order."""
    return pa.concat_tables([pa.ipc.open_stream(value.as_buffer()).read_all() for value in rows.column("changes")])


def _by_key_range(changes: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    numbers = changes.column("key_range").to_numpy()
    order = np.argsort(numbers, kind="stable")
    found, begins = np.unique(numbers[order], return_index=True)
    if len(found) > 1:
        changes = changes.take(order)
    ends = np.append(begins, changes.num_rows)[1:]
    for number, begin, end in zip(found, begins, ends, strict=True):
        yield int(number), changes.slice(begin, end - begin)


def _as_stream(changes: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, CHANGES, options=_OPTIONS) as stream:
        stream.write_table(changes)
    return sink.getvalue()
