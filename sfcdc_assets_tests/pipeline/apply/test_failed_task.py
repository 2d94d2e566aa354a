"""A task of Spark that fails: its own reason is given, and the next tick applies what it left."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids


def test_a_decoder_that_dies_in_a_worker_is_reported_with_its_own_reason(
    synced: EmulatedPipeline, spark: SparkSession
) -> None:
    """A file that vanished under the task: the run names the file, not just that a worker had an exception."""
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[0], {"Name": "cannot be read"})
    synced.sensor_tick()
    (events,) = (synced.warehouse / "raw_events" / "entity_name=Account").iterdir()
    kept = events.read_bytes()
    events.unlink()
    with pytest.raises(RunFailed) as raised:
        synced.tick()
    assert "Failed: Account: " in str(raised.value)
    assert events.name in str(raised.value)
    events.write_bytes(kept)
    synced.tick()
    synced.assert_equal_to_the_org()
