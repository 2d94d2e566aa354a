"""An org whose objects are polled: how it is set up, read and changed by tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sfcdc_assets.lake.store.poll_notes import read_poll_notes
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

OBJECTS = ("Case", "Lead", "Opportunity")
SEED = 67


def settings_of_polls(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("SFCDC_CHANNELS", "none")
    patch.setenv("SFCDC_POLL", ",".join(OBJECTS))


@contextmanager
def reading(pipeline: EmulatedPipeline) -> Iterator[tuple[PolledReader, OrgConnection, Warehouse]]:
    warehouse = Warehouse(str(pipeline.warehouse))
    with connect(load_settings()) as connected:
        yield PolledReader(warehouse, connected), connected, warehouse


def rename(pipeline: EmulatedPipeline, entity: str, count: int, value: str) -> None:
    """Change records in one transaction: all have one stamp."""
    with pipeline.org.transaction() as work:
        for record_id in ids(pipeline.org, entity)[:count]:
            work.update(entity, record_id, {"Description": value})


def read_rows(warehouse: Warehouse, entity: str, after: int = 0) -> list[str]:
    """Ids of the rows that polls have read, one for each time."""
    taken = Snapshots.open(warehouse, entity)
    assert taken is not None
    return [each for reading in taken.read_backs(after) for each in sorted(reading.record_ids)]


def last_reading(warehouse: Warehouse, entity: str) -> int:
    taken = Snapshots.open(warehouse, entity)
    assert taken is not None
    return taken.last_read_back()


def failure(reader: PolledReader, warehouse: Warehouse, entity: str) -> str | None:
    """Why an object could not be polled, though the others were."""
    report = reader.land(TICK)
    assert report.has_answered
    return read_poll_notes(warehouse)[entity].error
