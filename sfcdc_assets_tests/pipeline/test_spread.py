"""A batch's key ranges are worked on by as many tasks as there are shuffle partitions."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.state.apply import markers, spread
from sfcdc_assets.state.changes import CHANGES

_TASKS = pa.schema([("key_range", pa.int32()), ("task", pa.int32())])


@pytest.mark.parametrize(("key_ranges", "partitions", "fewest"), [(40, 8, 8), (400, 8, 8), (1, 8, 1)])
def test_tiny_changes_to_many_key_ranges_are_not_merged_into_one_task(
    spark: SparkSession, key_ranges: int, partitions: int, fewest: int
) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        changes = spark.createDataFrame(pa.Table.from_batches([markers(range(key_ranges))]), from_arrow_schema(CHANGES))

        def task_of(key_range: pa.Table) -> pa.Table:
            context = TaskContext.get()
            assert context is not None
            return pa.table(
                [key_range["key_range"].slice(0, 1).combine_chunks(), pa.array([context.partitionId()], pa.int32())],
                _TASKS,
            )

        found = spread(spark, changes, key_ranges).applyInArrow(task_of, from_arrow_schema(_TASKS)).toArrow()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert found.num_rows == key_ranges
    assert len(set(found["task"].to_pylist())) >= fewest
