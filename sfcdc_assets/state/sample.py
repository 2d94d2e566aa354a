"""An even sample of the Ids in a snapshot's pages, from which the key ranges' ranges are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession

EVERY = 500
"""One Id in so many."""


def sample_ids(spark: SparkSession, pages: Sequence[str], filesystem: fs.FileSystem) -> list[str]:
    """Every 500th Id of each page. Tasks read only the Id column; the driver holds the sample."""
    if not pages:
        return []

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield pa.RecordBatch.from_pydict({"Id": sample_of_page(path, filesystem)})

    frame = spark.createDataFrame(pa.table({"path": list(pages)})).mapInArrow(read, "Id string")
    return frame.toArrow()["Id"].to_pylist()


def sample_of_page(path: str, filesystem: fs.FileSystem) -> list[str]:
    """Every 500th Id of one page."""
    ids = pq.read_table(path, columns=["Id"], filesystem=filesystem, partitioning=None)["Id"].to_pylist()
    return sorted(ids)[::EVERY]
