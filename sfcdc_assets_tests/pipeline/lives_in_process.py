"""What Spark does for a batch, in this process: the very functions of the tasks, one key range after another.

A job of Spark costs a second, whatever it does; hundreds of lives have no use for that.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import fs

from sfcdc_assets.pipeline.applying import apply_changes, plan
from sfcdc_assets.pipeline.schemas import evolve
from sfcdc_assets.salesforce import session
from sfcdc_assets.salesforce.tls import trusted_roots
from sfcdc_assets.state.apply import EventRange, event_reader, markers
from sfcdc_assets.state.changes import CHANGES
from sfcdc_assets.state.key_range_task import APPLIED, KeyRangeTask
from sfcdc_assets.state.reshape import Reshape
from sfcdc_assets.state.sample import sample_of_page


@cache
def _roots(ca_file: Path | None) -> ssl.SSLContext:
    return trusted_roots(ca_file)


def with_roots_read_once(patch: pytest.MonkeyPatch) -> None:
    """Public certificates take 50 ms to read."""
    patch.setattr(session, "trusted_roots", _roots)


def without_spark(patch: pytest.MonkeyPatch, dice: Random) -> None:
    """Let batches be applied in this process. Rows reach the tasks in any order, as from a shuffle."""

    def apply_events(_: object, events: EventRange, task: KeyRangeTask, visit: Collection[int]) -> pa.Table:
        batches = []
        if events.files:
            paths = pa.RecordBatch.from_pydict({"path": list(events.files)})
            batches += event_reader(events, task.columns, task.key_ranges)(iter([paths]))
        if visit:
            batches.append(markers(sorted(visit)))
        changes = pa.Table.from_batches(batches, CHANGES)
        changes = changes.take(dice.sample(range(len(changes)), len(changes)))
        key_ranges = [
            changes.filter(pc.equal(changes["key_range"], number)) for number in pc.unique(changes["key_range"])
        ]
        return pa.concat_tables([APPLIED.empty_table(), *map(task.run, key_ranges)])

    def sample_ids(_: object, pages: Sequence[str], filesystem: fs.FileSystem) -> list[str]:
        return [record_id for page in pages for record_id in sample_of_page(page, filesystem)]

    def reshape_files(
        _: object, reshape: Reshape, paths: Sequence[str], filesystem: fs.FileSystem
    ) -> list[Mapping[str, object]]:
        return [reshape.write(path, filesystem) for path in paths]

    patch.setattr(apply_changes, "apply_events", apply_events)
    patch.setattr(plan, "sample_ids", sample_ids)
    patch.setattr(evolve, "reshape_files", reshape_files)
