"""`sfcdc verify` looks at history too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from sfcdc_assets.reconciliation import broken_histories as histories
from sfcdc_assets.reconciliation.broken_histories import broken, broken_histories
from sfcdc_assets.timeline.value_chain import value_chain
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.timeline.builders import (
    change,
    everything,
    follow,
    read,
    read_back,
    snapshot,
    timeline,
    versions,
)


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    """Three records with three versions each."""
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        for name in ("one", "two"):
            for record_id in pipeline.ids()[:3]:
                pipeline.update(record_id, Name=name)
            pipeline.catch_up()
        yield pipeline


def history(pipeline: QuietPipeline) -> DeltaTable:
    return DeltaTable(pipeline.warehouse.uri(f"history/{ENTITY}"))


def test_sound_histories_are_not_named(pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    assert broken_histories(pipeline.warehouse, ENTITY) == []
    monkeypatch.setattr(histories, "ROWS_AT_ONCE", 1)
    assert broken_histories(pipeline.warehouse, ENTITY) == []


def test_versions_of_one_position_are_in_order_whatever_the_order_of_rows() -> None:
    """An event's version that a read replaced at once is valid for no time of its own."""
    before = timeline(change("a", 1, "CREATE", **everything("x")))
    waited = (change("a", 2, "GAP_UPDATE"), change("a", 3, Name="y"))
    answered = read_back(follow(before.rows, *waited), read("a", 3, 3, **everything("y", Count=7)))
    again = snapshot(follow(answered.rows), 3, read("a", 3, 3, **everything("y", Count=8)))
    found = pl.DataFrame(versions(before, answered, again), infer_schema_length=None)
    ties = found.filter(pl.col("_superseded_at") == 3).filter(pl.col("_position") == 3)
    assert (len(ties), ties["_valid_from"].n_unique()) == (2, 1)
    reported = ["CREATE", "REFETCH", "SNAPSHOT"]
    for rows in permutations(range(len(found))):
        assert broken(found[list(rows)]) == []
        chain = value_chain(found[list(rows)], ["Name", "Count"]).filter(pl.col("field") == "Count")
        assert chain["change_type"].to_list() == reported


def test_a_version_that_is_missing_is_found(pipeline: QuietPipeline) -> None:
    record_id = pipeline.ids()[1]
    history(pipeline).delete(f"\"Id\" = '{record_id}' and \"Name\" = 'one'")
    assert broken_histories(pipeline.warehouse, ENTITY) == [record_id]


def test_a_version_that_stands_twice_is_found(pipeline: QuietPipeline) -> None:
    record_id = pipeline.ids()[2]
    history(pipeline).update(
        updates={"_valid_to": "_valid_from"}, predicate=f"\"Id\" = '{record_id}' and \"Name\" = 'one'"
    )
    assert broken_histories(pipeline.warehouse, ENTITY) == [record_id]
