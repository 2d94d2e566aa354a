"""How one job is laid out over its tasks, by size: which files of events and which key ranges each reads or visits, and
where a shuffle brings the changes of each key range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.task_assignment import partition_keys, task_assignment

ENTITY_NUMBER = pa.field("entity", pa.int32())
_INPUT = pa.schema([ENTITY_NUMBER, ("path", pa.string()), ("key_range", pa.int32())])
"""A file of events to read, or a key range to visit whether or not an event names it. Entities go by their number in
the job."""
PACKED_CHANGES = pa.schema(
    [("partition_key", pa.int32()), ENTITY_NUMBER, ("key_range", pa.int32()), ("changes", pa.binary())]
)
"""What is shuffled: changes of one key range (`CHANGES`), as one value, an Arrow stream (`packed_changes`).
`partition_key` says which task they go to (`Placement`)."""
READ_BYTES = 1_000_000
"""Bytes of events that are worth a task that reads them: some 30 ms of decoding."""
RANGE_BYTES = 1_500_000
"""What a key range without files costs a task all the same, in bytes of a file that is rewritten: some 50 ms."""


def ranges_of(batches: Sequence[EntityBatch], tasks: int) -> list[pa.RecordBatch]:
    """Return the key ranges of the small batches, of each task of a job without a shuffle."""
    return _shared_out(
        [
            ({"entity": number, "key_range": key_range}, batch.task.key_ranges[key_range].size + RANGE_BYTES)
            for number, batch in enumerate(batches)
            if not batch.is_shuffled
            for key_range in sorted(batch.touched)
        ],
        tasks,
    )


def inputs_of(batches: Sequence[EntityBatch], tasks: int) -> list[pa.RecordBatch]:
    """Return what each task reads in the first half of a job with a shuffle: of the batches that are not small."""
    shuffled = [(number, batch) for number, batch in enumerate(batches) if batch.is_shuffled]
    found = [
        ({"entity": number, "path": path}, size)
        for number, batch in shuffled
        for path, size in batch.events.files.items()
    ]
    visits = [
        ({"entity": number, "key_range": key_range}, 1)
        for number, batch in shuffled
        for key_range in sorted(batch.visit)
    ]
    wanted = max(1, -(-sum(size for _, size in found) // READ_BYTES))
    return _shared_out([*found, *visits], min(tasks, wanted))


def _shared_out(pieces: Sequence[tuple[Mapping[str, object], int]], tasks: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pylist([pieces[piece][0] for piece in share], schema=_INPUT)
        for share in task_assignment([size for _, size in pieces], tasks)
    ]


@dataclass(frozen=True)
class Placement:
    """Where a shuffle brings the changes of each key range: by entity and key range, both by their numbers, the key of
    a partition (`partition_keys`)."""

    tasks: int
    keys: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, batches: Sequence[EntityBatch], tasks: int) -> Placement:
        """Place the batches that are not small, in at most so many tasks: key ranges that nothing touches do not
        count."""
        shuffled = [(number, batch) for number, batch in enumerate(batches) if batch.is_shuffled]
        touched = [(number, key_range) for number, batch in shuffled for key_range in sorted(batch.touched)]
        sizes = [batches[number].task.key_ranges[key_range].size + RANGE_BYTES for number, key_range in touched]
        dealt = task_assignment(sizes, tasks)
        keys = partition_keys(max(1, len(dealt)))  # events may touch nothing: all were published twice
        placed = {touched[piece]: keys[task] for task, share in enumerate(dealt) for piece in share}
        return cls(
            len(keys),
            {
                number: tuple(placed.get((number, each.number), keys[0]) for each in batch.task.key_ranges)
                for number, batch in shuffled
            },
        )

    def key_of(self, number: int, key_range: int) -> int:
        """Return the partition key of an entity's key range. What could not be read is of no range: it may go to the
        first one's task."""
        return self.keys[number][max(0, key_range)]
