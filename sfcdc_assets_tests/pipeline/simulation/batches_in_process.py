"""What Spark does for a batch, in this process: the very functions of the tasks, one key range after another.

A job of Spark costs a second, whatever it does; hundreds of simulated histories have no use for that.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import fs

from sfcdc_assets.apply import attempt, key_range_task, plan
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.job_layout import PACKED_CHANGES, Placement, inputs_of, ranges_of
from sfcdc_assets.apply.spark_job import (
    RESULTS,
    Outcome,
    PackedBatches,
    apply_packed,
    apply_ranges,
    outcomes,
    read_changes,
)
from sfcdc_assets.key_ranges.key_ranges import IdRange, LookedInto
from sfcdc_assets.key_ranges.sample import look_into_file, sample_of_page
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import schemas
from sfcdc_assets.salesforce import session
from sfcdc_assets.salesforce.tls import trusted_roots
from sfcdc_assets.schema_evolution import reshape
from sfcdc_assets.schema_evolution.reshape import Reshape


@cache
def _roots(ca_file: Path | None) -> ssl.SSLContext:
    return trusted_roots(ca_file)


def with_roots_read_once(patch: pytest.MonkeyPatch) -> None:
    """Public certificates take 50 ms to read; of a bundle that the environment names, for each connection."""
    patch.setattr(session, "trusted_roots", _roots)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        patch.delenv(name, raising=False)


def with_schemas_read_once(patch: pytest.MonkeyPatch) -> None:
    """Every step of a run reads the schemas, 60 times in a short history; a version of their table is read once."""
    scan, read = Table.scan, dict[tuple[str, int, int], pa.Table]()

    def once(table: Table, *arguments: Any, **options: Any) -> pa.Table:
        if table.name != schemas.NAME:
            return scan(table, *arguments, **options)
        key = (table._delta.table_uri, table.created_ms, table.version)
        if key not in read:
            read[key] = scan(table)
        return read[key]

    patch.setattr(Table, "scan", once)


def with_small_pieces(patch: pytest.MonkeyPatch) -> None:
    """A file in which a batch changes few rows is written again in pieces of some rows each, as a large one is, and a
    task follows some records after others, as those of a backlog."""
    patch.setattr(attempt, "piece_bytes", lambda _: 2_000)
    patch.setattr(key_range_task, "FOLLOWED_CELLS", 2_000)


def job_of(batches: Sequence[EntityBatch]) -> tuple[PackedBatches, Placement, Any, Any]:
    """What tasks are given of these batches."""
    return PackedBatches.of(batches), Placement.of(batches, 2), inputs_of(batches, 2), ranges_of(batches, 2)


def worked_off(packed: PackedBatches, placement: Placement, inputs: Any, ranges: Any, dice: Random) -> pa.Table:
    """What all tasks of a job give back. From a shuffle rows reach them in any order."""
    changes = pa.Table.from_batches(read_changes(packed, placement, iter(inputs)), PACKED_CHANGES)
    changes = changes.take(pa.array(dice.sample(range(len(changes)), len(changes)), pa.int64()))
    results = [
        apply_packed(
            packed, changes.filter((pc.field("entity") == of["entity"]) & (pc.field("key_range") == of["key_range"]))
        )
        for of in changes.select(["entity", "key_range"]).group_by(["entity", "key_range"]).aggregate([]).to_pylist()
    ]
    return pa.concat_tables([pa.Table.from_batches(apply_ranges(packed, iter(ranges)), RESULTS), *results])


def without_spark(patch: pytest.MonkeyPatch, dice: Random) -> None:
    """Let batches be applied in this process: small ones with a shuffle or without."""

    def apply_events(_: object, batches: Sequence[EntityBatch]) -> list[Outcome]:
        batches = [replace(batch, is_shuffled=batch.is_shuffled or dice.random() < 0.5) for batch in batches]
        return outcomes(batches, worked_off(*job_of(batches), dice))

    def sample_ids(_: object, pages: Sequence[str], filesystem: fs.FileSystem) -> list[str]:
        return [record_id for page in pages for record_id in sample_of_page(page, filesystem)]

    def look_into(
        _: object, files: Sequence[IdRange], filesystem: fs.FileSystem, concerned: pl.Series | None
    ) -> dict[IdRange, LookedInto]:
        return {file: look_into_file(file.path, filesystem, concerned) for file in files}

    def reshape_files(
        _: object, way: Reshape, paths: Sequence[str], filesystem: fs.FileSystem
    ) -> list[Mapping[str, object]]:
        return [way.write(path, filesystem) for path in paths]

    patch.setattr(attempt, "apply_events", apply_events)
    patch.setattr(attempt, "AT_ONCE", 1)  # a seed gives the same history again
    patch.setattr(plan, "sample_ids", sample_ids)
    patch.setattr(plan, "look_into", look_into)
    patch.setattr(reshape, "reshape_files", reshape_files)
