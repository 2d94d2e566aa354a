"""One entity's share of a batch: all that Spark's tasks need for it, in one value that is sent to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from sfcdc_assets.apply.key_range_task import KeyRangeTask
from sfcdc_assets.change_events.kinds_of_time import Unsettled
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.key_ranges.data_file import rows_of_files, rows_where
from sfcdc_assets.key_ranges.frames import gathered
from sfcdc_assets.key_ranges.key_ranges import range_numbers
from sfcdc_assets.timeline.changes import CHANGES, RAW_COLUMNS, ChangeReader
from sfcdc_assets.timeline.decoded_events import BYTES_AT_ONCE

FEW_EVENTS, FEW_BYTES, FEW_RANGES = 20_000, 16_000_000, 32
"""Events, and bytes of their files, that are decoded in a fraction of the time that a shuffle takes; more key ranges
are shared out more evenly by a shuffle."""

EVENTS_AT_ONCE = 8_192
"""Events that are decoded at once; fewer where they are large (`BYTES_AT_ONCE`)."""


def is_small(events: int, size: int, ranges: int) -> bool:
    """Return whether each task may read all of a batch's events, in files of `size` bytes, to find those of its key
    ranges. A snapshot without events has nothing to shuffle, however large it is."""
    return events == 0 or (events <= FEW_EVENTS and size <= FEW_BYTES and ranges <= FEW_RANGES)


@dataclass(frozen=True)
class EventRange:
    """Events of one channel with after < position <= up_to, the files of `raw_events` that may hold them (path and
    bytes), and the positions to leave out because their event was published twice."""

    channel: str
    after: int
    up_to: int
    files: Mapping[str, int]
    filesystem: fs.FileSystem = field(repr=False)
    schemas: Mapping[str, str] = field(repr=False)
    """Schema id -> Avro JSON."""
    duplicates: Collection[int] = frozenset()


@dataclass(frozen=True)
class EntityBatch:
    """The entity's events and what is done with them. Key ranges that events name are visited, and those in `visit`
    besides; `touched` are all of them. A batch that is not small is shuffled. File systems bring what opens them: a
    worker's environment has no part in it."""

    entity: str
    events: EventRange
    task: KeyRangeTask = field(repr=False)
    visit: frozenset[int] = frozenset()
    touched: frozenset[int] = frozenset()
    is_shuffled: bool = False
    bytes: int = 0
    """That its tasks read at most."""

    @property
    def is_in_a_store(self) -> bool:
        """Its files lie in an object store, and to read and write them is to wait."""
        return isinstance(self.events.filesystem, fs.PyFileSystem)

    @cached_property
    def _reader(self) -> ChangeReader:
        unsettled = Unsettled(self.task.waiting, self.task.perhaps_older)
        return ChangeReader(self.events.schemas, self.task.columns, self.events.duplicates, unsettled)

    def changes(self, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the changes (`CHANGES`) in some of the files, with the key range of each. Events of small files are
        decoded together: to decode some takes as long as to decode many."""
        events = self.events
        wanted = (
            (pc.field("channel") == events.channel)
            & (pc.field("position") > events.after)
            & (pc.field("position") <= events.up_to)
        )
        source = rows_of_files(paths, RAW_EVENTS, events.filesystem)
        found = rows_where(source, wanted, RAW_COLUMNS, EVENTS_AT_ONCE)
        for rows in gathered((pa.Table.from_batches([each]) for each in found), EVENTS_AT_ONCE, BYTES_AT_ONCE):
            yield self._with_range(self._reader.read(rows))

    def _with_range(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        numbers = range_numbers(self.task.key_ranges, changes.column("record_id").to_pylist())
        return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), *changes.columns[1:]], schema=CHANGES)
