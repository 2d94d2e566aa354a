"""What a busy hour leaves in Dagster's storage, from some simulated minutes of it: a day takes 200 MB, a page of a run
less than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.orchestration.assets import report_interval
from sfcdc_assets.orchestration.assets.keys import CURRENT_STATE_KEY, RAW_EVENTS_KEY, TABLE_KEYS
from sfcdc_assets.orchestration.assets.report_interval import EVERY_SECONDS
from sfcdc_assets_tests.pipeline.busy_hour import ENTITIES, TICK_SECONDS, BusyStream, stored, stored_of_run
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline

DAY_MB, PAGE_MB = 200, 1.0
SHORT_SECONDS = 4 * TICK_SECONDS
"""Between two reports here: what one takes does not depend on how long it was waited for."""
TICKS = 5
"""So many that each partition is reported once between the run's first and its last report."""
RUNS_A_DAY = 86_400 / FOLLOW_SECONDS
GOING_ON = int(FOLLOW_SECONDS / EVERY_SECONDS)
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


def test_a_run_that_goes_on_reports_in_sum_and_what_a_day_takes_is_bounded(
    make_pipeline: Callable[..., EmulatedPipeline],
    instance: dg.DagsterInstance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = make_pipeline(*ENTITIES)
    pipeline.instance = instance
    pipeline.sync()
    newest = max(
        record.storage_id
        for key in (*TABLE_KEYS, RAW_EVENTS_KEY)
        for record in instance.fetch_materializations(key, limit=1).records
    )
    monkeypatch.setattr(report_interval, "EVERY_SECONDS", SHORT_SECONDS)
    home = tmp_path / "home"
    marks = [stored(home)]
    run_id = BusyStream(pipeline, instance).run(TICKS, monkeypatch, lambda: marks.append(stored(home)))
    whole, once, page = stored(home) - marks[0], marks[-1] - marks[1], stored_of_run(home, run_id)
    of_run = whole.bytes + (GOING_ON - 1) * once.bytes
    page_bytes = page.bytes + (GOING_ON - 1) * once.bytes / 2
    day_mb, page_mb = of_run * RUNS_A_DAY / 1e6, page_bytes / 1e6
    print(f"{day_mb:.0f} MB a day; the page of a run {page_mb:.2f} MB, {page.events} events; {whole}, {once}")
    for entity in ENTITIES:
        of_state = reported(instance, CURRENT_STATE_KEY, entity, newest)
        of_events = reported(instance, RAW_EVENTS_KEY, entity, newest)
        assert len(of_state) <= 3, "the first, the last, and one between them"
        assert len(of_events) <= 3
        assert sum(int(str(each["rows_changed"])) for each in of_state) >= TICKS // 2, "each is of many batches"
        assert sum(int(str(each["events_landed"])) for each in of_events) >= TICKS - 1
        columns = [each for each in of_state if "dagster/column_schema" in each]
        assert not columns, "they have not changed since the sync"
        assert all("columns_reported_in" in each for each in of_state)
    assert day_mb < DAY_MB
    assert page_mb < PAGE_MB
