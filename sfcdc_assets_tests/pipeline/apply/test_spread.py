"""A batch's key ranges are worked on by as many tasks as there are shuffle partitions, each by the one it was given."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.apply.spark_job import in_tasks, spread
from sfcdc_assets.apply.task_assignment import partition_keys

_RANGES = pa.schema([("partition_key", pa.int32()), ("entity", pa.int32()), ("key_range", pa.int32())])
_TASKS = pa.schema([*_RANGES, ("task", pa.int32())])


@pytest.mark.parametrize("tasks", [1, 8, 24])
def test_tiny_changes_to_many_key_ranges_reach_the_tasks_that_they_were_dealt_out_to(
    spark: SparkSession, tasks: int
) -> None:
    keys = partition_keys(tasks)
    ranges = [{"partition_key": keys[each % tasks], "entity": each % 3, "key_range": each} for each in range(60)]
    work = [pa.RecordBatch.from_pylist(ranges[at::2], _RANGES) for at in (0, 1)]

    def task_of(key_range: pa.Table) -> pa.Table:
        context = TaskContext.get()
        assert context is not None
        (of,) = key_range.to_pylist()
        return pa.Table.from_pylist([{**of, "task": context.partitionId()}], _TASKS)

    changes = in_tasks(spark, work, lambda rows: rows, _RANGES)
    found = spread(changes, tasks).applyInArrow(task_of, from_arrow_schema(_TASKS)).toArrow().to_pylist()
    assert {each["key_range"]: each["task"] for each in found} == {each: each % tasks for each in range(60)}
