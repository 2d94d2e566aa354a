"""Small files are packed when there are many: how many a table has does not grow with the day."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from sfcdc_assets.cli.local_dagster.housekeeping import pack
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.lake.maintenance import pack_by_count
from sfcdc_assets.lake.maintenance.pack_by_count import files_to_pack, pack_where_many
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import packing
from sfcdc_assets.orchestration.jobs.packing import FIRST_PAUSE_SECONDS, why_not_packed
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets_tests.lake.maintenance.test_pack import ALL, land
from sfcdc_assets_tests.lake.test_raw_events import CHANNEL, events
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory

pytestmark = pytest.mark.slow

MANY = 40
ENTITIES = ("Account", "Contact", "Lead")


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pack_by_count, packing):
        monkeypatch.setattr(module, "MANY_FILES", MANY)


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    return Warehouse(str(tmp_path / "warehouse"))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_in_memory() as made:
        yield made


def files(warehouse: Warehouse) -> int:
    return len(RawEvents.open(warehouse).table.files())


def tick(warehouse: Warehouse, position: int) -> None:
    """A commit with an event of each entity: a file for each."""
    last = position + len(ENTITIES) - 1
    shape = pa.concat_tables(events(number, entity=entity) for number, entity in enumerate(ENTITIES, 1))
    column = shape.schema.get_field_index("position")
    rows = shape.set_column(column, "position", pa.array(range(position, last + 1), pa.int64()))
    RawEvents.open(warehouse).commit(rows, StreamCheckpoint(CHANNEL, last, last))


def look(instance: dg.DagsterInstance, warehouse: Warehouse) -> dg.RunRequest | dg.SkipReason:
    sensor = defs.resolve_sensor_def(ASSETS.name("pack_when_many"))
    with dg.build_sensor_context(instance) as context:
        found = sensor(context)
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


def test_over_a_day_of_ticks_the_number_of_files_stays_flat(warehouse: Warehouse, instance: dg.DagsterInstance) -> None:
    """A tick for each six minutes, and a look for each thirty."""
    counts = []
    for minute in range(0, 24 * 60, 6):
        tick(warehouse, minute * 10 + 1)
        if minute % 30 == 0 and why_not_packed(ASSETS, instance, warehouse, None) is None:
            assert [done.failure for done in pack_where_many(warehouse, None)] == [None]
        counts.append(files(warehouse))
    quarter = len(counts) // 4
    assert max(counts) < MANY + 5 * len(ENTITIES) + 3 * 12
    assert max(counts[-quarter:]) <= max(counts[:quarter]) + 3 * 6, "what is left grows with the logarithm"
    assert RawEvents.open(warehouse).table.count() == len(counts) * len(ENTITIES)


def test_the_sensor_asks_for_a_run_when_there_are_many_and_the_run_packs(
    warehouse: Warehouse, instance: dg.DagsterInstance
) -> None:
    for position in range(1, MANY):
        land(warehouse, ALL, [position])
    assert isinstance(look(instance, warehouse), dg.SkipReason)
    land(warehouse, ALL, [MANY])
    assert isinstance(look(instance, warehouse), dg.RunRequest)
    assert defs.resolve_job_def(ASSETS.name("pack")).execute_in_process(instance=instance).success
    assert files(warehouse) == 1
    assert isinstance(look(instance, warehouse), dg.SkipReason)


def test_tables_beside_raw_events_are_packed_by_their_own_count(warehouse: Warehouse) -> None:
    for position in range(1, MANY + 1):
        land(warehouse, ALL, [position])
    assert files_to_pack(warehouse, None) == MANY
    assert [(done.table, done.packed, done.packed_into) for done in pack_where_many(warehouse, None)] == [
        ("raw_events", MANY, 1)
    ]
    assert list(pack_where_many(warehouse, None)) == []


class Later(Clock):
    """The machine's time and some seconds more."""

    seconds = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self.seconds * 1000)


def test_after_a_run_that_failed_the_next_ones_wait_for_longer_and_longer(
    warehouse: Warehouse, instance: dg.DagsterInstance
) -> None:
    for position in range(1, MANY + 1):
        land(warehouse, ALL, [position])
    path = warehouse.folder / "raw_events" / RawEvents.open(warehouse).table.files()[0].path
    kept = path.read_bytes()
    path.write_bytes(b"none")
    later = Later()
    with clock.using(later):
        for failures in range(3):
            assert why_not_packed(ASSETS, instance, warehouse, None) is None
            assert (
                not defs.resolve_job_def(ASSETS.name("pack"))
                .execute_in_process(instance=instance, raise_on_error=False)
                .success
            )
            later.seconds = FIRST_PAUSE_SECONDS * 2**failures - 60  # Dagster notes the end by the machine's time
            assert "The last run failed" in str(why_not_packed(ASSETS, instance, warehouse, None))
            later.seconds = FIRST_PAUSE_SECONDS * 2**failures + 60
        path.write_bytes(kept)
        assert defs.resolve_job_def(ASSETS.name("pack")).execute_in_process(instance=instance).success
    assert files(warehouse) == 1


def test_a_sync_packs_too_and_does_not_fail_with_it(warehouse: Warehouse, instance: dg.DagsterInstance) -> None:
    reported: list[str] = []
    for position in range(1, MANY + 1):
        land(warehouse, ALL, [position])
    pack(instance, load_settings(), reported.append)
    assert (reported, files(warehouse)) == (["small files are packed"], 1)
    pack(instance, load_settings(), reported.append)
    assert reported == ["small files are packed"]
    for position in range(MANY + 1, 2 * MANY + 1):
        land(warehouse, ALL, [position])
    newest = RawEvents.open(warehouse).table.files()[0].path
    (warehouse.folder / "raw_events" / newest).write_bytes(b"none")
    pack(instance, load_settings(), reported.append)
    assert "is damaged" in reported[-1]
