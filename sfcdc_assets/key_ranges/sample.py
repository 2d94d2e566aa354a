"""Ids of files, read by tasks: an even sample, from which key ranges are cut, and whether some are among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession

from sfcdc_assets.key_ranges.key_ranges import IdRange, LookedInto
from sfcdc_assets.key_ranges.range_rows import parts_of

EVERY = 500
"""One Id in so many."""
LOOKED_AT_EVERY = 50
"""The same of files that are cut: their rows may be few and large."""
IDS_AT_ONCE = 65_536


def sample_ids(spark: SparkSession, pages: Sequence[str], filesystem: fs.FileSystem) -> list[str]:
    """Every 500th Id of each page. Tasks read only the Id column; the driver holds the sample."""
    if not pages:
        return []

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield pa.RecordBatch.from_pydict({"Id": sample_of_page(path, filesystem)})

    frame = spark.createDataFrame(pa.table({"path": list(pages)})).mapInArrow(read, "Id string")
    ids: list[str] = frame.toArrow()["Id"].to_pylist()
    return ids


def sample_of_page(path: str, filesystem: fs.FileSystem) -> list[str]:
    """Every 500th Id of one page."""
    ids = pq.read_table(path, columns=["Id"], filesystem=filesystem, partitioning=None)["Id"].to_pylist()
    return sorted(ids)[::EVERY]


_LOOKED = pa.schema([("path", pa.string()), ("concerned", pa.int64()), ("sample", pa.list_(pa.string()))])


def look_into(
    spark: SparkSession, files: Sequence[IdRange], filesystem: fs.FileSystem, concerned: pl.Series | None
) -> dict[IdRange, LookedInto]:
    """Return what each file has of the Ids that a batch concerns; None: of all Ids. Tasks read only the Id column."""
    if not files:
        return {}

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                found = look_into_file(path, filesystem, concerned)
                row = {"path": path, "concerned": found.concerned, "sample": list(found.sample)}
                yield pa.RecordBatch.from_pylist([row], schema=_LOOKED)

    frame = spark.createDataFrame(pa.table({"path": [file.path for file in files]}))
    rows = frame.mapInArrow(look, "path string, concerned bigint, sample array<string>").toArrow().to_pylist()
    found = {row["path"]: LookedInto(row["concerned"], tuple(row["sample"])) for row in rows}
    return {file: found[file.path] for file in files}


def look_into_file(path: str, filesystem: fs.FileSystem, concerned: pl.Series | None) -> LookedInto:
    """Look into one file as `look_into` does. Some thousand Ids are held at a time, and the sample."""
    sample: list[str] = []
    seen = found = 0
    with filesystem.open_input_file(path) as source:
        for rows in parts_of(source, ("Id",), rows=IDS_AT_ONCE):
            ids = rows["Id"].cast(pl.String)
            sample += ids[-seen % LOOKED_AT_EVERY :: LOOKED_AT_EVERY].to_list()
            found += len(ids) if concerned is None else int(ids.is_in(concerned.implode()).sum())
            seen += len(ids)
    return LookedInto(found, tuple(sample))
