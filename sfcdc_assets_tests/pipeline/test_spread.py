"""A batch's key ranges are worked on by as many tasks as there are shuffle partitions."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.state.apply import spread

_RANGES = pa.schema([("entity", pa.int32()), ("key_range", pa.int32())])
_TASKS = pa.schema([*_RANGES, ("task", pa.int32())])


@pytest.mark.parametrize(("entities", "key_ranges", "fewest"), [(1, 40, 8), (1, 400, 8), (1, 1, 1), (40, 1, 8)])
def test_tiny_changes_to_many_key_ranges_are_not_merged_into_one_task(
    spark: SparkSession, entities: int, key_ranges: int, fewest: int
) -> None:
    partitions = 8
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        ranges = [
            {"entity": entity, "key_range": key_range} for entity in range(entities) for key_range in range(key_ranges)
        ]
        changes = spark.createDataFrame(pa.Table.from_pylist(ranges, _RANGES), from_arrow_schema(_RANGES))

        def task_of(key_range: pa.Table) -> pa.Table:
            context = TaskContext.get()
            assert context is not None
            (of,) = key_range.to_pylist()
            return pa.Table.from_pylist([{**of, "task": context.partitionId()}], _TASKS)

        found = spread(spark, changes, len(ranges)).applyInArrow(task_of, from_arrow_schema(_TASKS)).toArrow()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert found.num_rows == len(ranges)
    assert len(set(found["task"].to_pylist())) >= fewest
