"""What a busy hour leaves in Dagster's storage, from some simulated minutes of it: a day takes 200 MB, a page of a run
less than one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorType, TickData, TickStatus

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.assets import report_interval
from sfcdc_assets.orchestration.assets.column_reports import OF_THE_TABLE, REPORTED_AT
from sfcdc_assets.orchestration.assets.front_doors import EVERY_SECONDS as DOOR_SECONDS
from sfcdc_assets.orchestration.assets.report_interval import EVERY_SECONDS
from sfcdc_assets_tests.pipeline.busy_hour import (
    ENTITIES,
    TICK_SECONDS,
    BusyStream,
    stored,
    stored_of_asset,
    stored_of_run,
)
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline

pytestmark = pytest.mark.slow

DAY_MB, PAGE_MB = 200, 1.0
DOOR_BYTES = 4_000
"""Of a report of an entity's own asset, which Dagster stores twice."""
TICKS_A_DAY, TICKS_MADE = 86_400 / 5, 200
SHORT_SECONDS = 4 * TICK_SECONDS
"""Between two reports here: what one takes does not depend on how long it was waited for."""
TICKS = 5
"""So many that each partition is reported once between the run's first and its last report."""
RUNS_A_DAY = 86_400 / FOLLOW_SECONDS
GOING_ON, DOORS_GOING_ON = (math.ceil(FOLLOW_SECONDS / every) - 1 for every in (EVERY_SECONDS, DOOR_SECONDS))
"""Reports between the first and the last of a run of full length."""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as made:
        yield made


def reported(instance: dg.DagsterInstance, key: dg.AssetKey, entity: str, after: int) -> list[Mapping[str, object]]:
    """Oldest first."""
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[entity], after_storage_id=after)
    records = instance.fetch_materializations(wanted, limit=1000, ascending=True).records
    found = [record.asset_materialization for record in records]
    return [{name: value.value for name, value in each.metadata.items()} for each in found if each is not None]


def bytes_of_a_tick(instance: dg.DagsterInstance, home: Path) -> float:
    """Of one of the sensor, beside what it asks for."""
    before, name = stored(home), ASSETS.name("poll_ChangeEvents")
    said = f"12 events landed, position 123456; run {'0' * 36} is at work on {CHANNEL}, and goes on with what lands."
    for number in range(TICKS_MADE):
        instance.create_tick(
            TickData(
                instigator_origin_id="0" * 40,
                instigator_name=name,
                instigator_type=InstigatorType.SENSOR,
                status=TickStatus.SKIPPED,
                timestamp=1_700_000_000.0 + number,
                selector_id="0" * 40,
                skip_reason=said,
            )
        )
    return (stored(home) - before).bytes / TICKS_MADE


def bytes_of_columns(event: dg.EventLogEntry | None) -> int:
    """Of what is in a report once a day on a stream that goes on."""
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    return sum(len(dg.serialize_value(cast(Any, metadata[name]))) for name in OF_THE_TABLE if name in metadata)


def differing(instance: dg.DagsterInstance, entity: str) -> Mapping[str, set[str]]:
    """What differs between the reports of a table that have its columns, and when each was made."""
    wanted = dg.AssetRecordsFilter(asset_key=ASSETS.keys.current_state, asset_partitions=[entity])
    records = instance.fetch_materializations(wanted, limit=1000).records
    whole = [each.asset_materialization.metadata for each in records if each.asset_materialization is not None]
    said: dict[str, set[str]] = {}
    for metadata in (each for each in whole if "columns" in each):
        for name in (*OF_THE_TABLE, REPORTED_AT):
            said.setdefault(name, set()).add(str(metadata.get(name)))
    return {name: values for name, values in said.items() if len(values) > 1}


def test_a_run_that_goes_on_reports_in_sum_and_what_a_day_takes_is_bounded(
    make_pipeline: Callable[..., EmulatedPipeline],
    instance: dg.DagsterInstance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = make_pipeline(*ENTITIES)
    pipeline.instance = instance
    home, stream = tmp_path / "home", BusyStream(pipeline, instance)
    pipeline.sync()
    of_doors = [ASSETS.keys.of_entity(entity) for entity in ENTITIES]
    first = [stored_of_asset(home, key) for key in of_doors]
    stream.change()
    pipeline.sync()
    doors = [stored_of_asset(home, key) - before for key, before in zip(of_doors, first, strict=True)]
    assert all(door.events for door in doors), "each is in a cut, and its own asset is reported"
    whole = sum(door.bytes for door in doors) / sum(door.events for door in doors)
    report = whole - sum(map(bytes_of_columns, map(instance.get_latest_materialization_event, of_doors))) / len(doors)
    # Counted beside the run below, which reaches no cut before its end.
    of_run_doors = (DOORS_GOING_ON + 2) * report * len(ENTITIES)
    doors_mb = 2 * of_run_doors * RUNS_A_DAY / 1e6
    print(f"an entity's own asset: {report:,.0f} bytes a report, {whole:,.0f} with columns; {doors_mb:.0f} MB a day")
    assert report < DOOR_BYTES
    newest = max(
        record.storage_id
        for key in (*ASSETS.keys.of_tables, ASSETS.keys.raw_events)
        for record in instance.fetch_materializations(key, limit=1).records
    )
    monkeypatch.setattr(report_interval, "EVERY_SECONDS", SHORT_SECONDS)
    marks, rounds = [stored(home)], [0]

    def mark() -> None:
        marks.append(stored(home))
        rounds.append(len(reported(instance, ASSETS.keys.current_state, ENTITIES[0], newest)))

    run_id = stream.run(TICKS, monkeypatch, mark)
    assert len(marks) == TICKS + 1, "none of the ticks is left out"
    whole, between, page = stored(home) - marks[0], marks[-1] - marks[1], stored_of_run(home, run_id)
    once = between.bytes / (rounds[-1] - rounds[1])
    of_run = whole.bytes + (GOING_ON - 1) * once
    page_bytes = page.bytes + (GOING_ON - 1) * once / 2 + of_run_doors
    ticks_mb = bytes_of_a_tick(instance, home) * TICKS_A_DAY / 1e6
    day_mb, page_mb = of_run * RUNS_A_DAY / 1e6 + doors_mb + ticks_mb, page_bytes / 1e6
    print(f"{day_mb:.0f} MB a day, {doors_mb:.0f} of it of entities' own assets, {ticks_mb:.0f} of ticks")
    print(f"the page of a run {page_mb:.2f} MB, {page.events} events; {whole}, {once:,.0f} bytes a report of all")
    for entity in ENTITIES:
        of_state = reported(instance, ASSETS.keys.current_state, entity, newest)
        of_events = reported(instance, ASSETS.keys.raw_events, entity, newest)
        assert len(of_state) <= 3, "the first, the last, and one between them"
        assert len(of_events) <= 3
        assert sum(int(str(each["rows_changed"])) for each in of_state) >= TICKS // 2, "each is of many batches"
        assert sum(int(str(each["events_landed"])) for each in of_events) >= TICKS - 1
        assert not any("columns" in each for each in of_state), f"they have changed: {differing(instance, entity)}"
        assert all("columns_reported_in" in each for each in of_state)
    assert day_mb < DAY_MB
    assert page_mb < PAGE_MB
