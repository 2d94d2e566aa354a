"""Where a shuffle brings the changes of a key range."""

from __future__ import annotations

from pyarrow import fs

from sfcdc_assets.apply.entity_batch import EntityBatch, EventRange
from sfcdc_assets.apply.job_layout import Placement
from sfcdc_assets.apply.key_range_task import KeyRangeTask
from sfcdc_assets.apply.task_assignment import partition_keys
from sfcdc_assets.key_ranges.key_ranges import KeyRange

MEGABYTES = 1_000_000


def batch(*touched: int, is_shuffled: bool = True) -> EntityBatch:
    """Of a table of ten key ranges, of which the fourth has most rows."""
    ranges = tuple(KeyRange(n, f"{n}" if n else "", None, size=(20 if n == 3 else 5) * MEGABYTES) for n in range(10))
    here = fs.LocalFileSystem()
    task = KeyRangeTask((), ranges, 1, here, here, here, here)
    return EntityBatch(
        "Account", EventRange("c", 0, 9, {}, here, {}), task, frozenset(), frozenset(touched), is_shuffled
    )


def placed(found: Placement, number: int, *key_ranges: int) -> list[int]:
    return [found.key_of(number, each) for each in key_ranges]


def test_the_touched_key_ranges_of_all_shuffled_batches_are_dealt_out_together_and_no_others_count() -> None:
    found = Placement.of([batch(1, is_shuffled=False), batch(0, 3), batch(7, 8)], 3)
    assert found.tasks == 3
    large, second, third = partition_keys(3)
    assert placed(found, 1, 3) == [large]
    of_rest = [*placed(found, 1, 0), *placed(found, 2, 7, 8)]
    assert sorted(of_rest) in (sorted([second, second, third]), sorted([second, third, third]))


def test_what_could_not_be_read_goes_to_some_task() -> None:
    assert placed(Placement.of([batch(0, 1)], 2), 0, -1)[0] in partition_keys(2)


def test_events_that_touch_nothing_have_a_task() -> None:
    found = Placement.of([batch()], 4)
    assert (found.tasks, placed(found, 0, 2)) == (1, partition_keys(1))
