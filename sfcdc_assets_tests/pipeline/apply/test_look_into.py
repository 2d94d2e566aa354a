"""What tasks of Spark find in files of other clients is what is in them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from pyarrow import fs
from pyspark.sql import SparkSession

from sfcdc_assets.key_ranges.key_ranges import IdRange
from sfcdc_assets.key_ranges.sample import LOOKED_AT_EVERY, look_into, look_into_file


def test_tasks_find_which_files_hold_the_records_of_a_batch_and_an_even_sample(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    files = []
    for number in range(3):
        ids = [f"{each:06}" for each in range(number, 3_000, 3)]
        pl.DataFrame({"Id": ids, "other": ids}).sample(fraction=1.0, shuffle=True, seed=1).write_parquet(
            tmp_path / f"{number}.parquet"
        )
        files.append(IdRange(f"{number}.parquet", ids[0], ids[-1], 1, len(ids)))
    concerned = pl.Series(["000000", "000003", "000007", "none"])
    found = look_into(spark, files, store, concerned)
    assert [found[file].concerned for file in files] == [2, 1, 0]
    assert all(found[file] == look_into_file(file.path, store, concerned) for file in files)
    assert {len(found[file].sample) for file in files} == {1_000 // LOOKED_AT_EVERY}
    assert [looked.concerned for looked in look_into(spark, files, store, None).values()] == [1_000] * 3
    assert look_into(spark, [], store, concerned) == {}
