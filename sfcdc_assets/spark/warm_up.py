"""A job of the form that applies events, over nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def warm_up(session: SparkSession) -> None:
    """Run it: the JVM's code is loaded and the daemon of the Python workers started when the first batch comes."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def also_the_same(group: pa.Table) -> pa.Table:
        return group

    rows = session.createDataFrame(pa.table({"key": [0]})).mapInArrow(same, "key long")
    rows.repartition(1, "key").groupBy("key").applyInArrow(also_the_same, "key long").toArrow()
