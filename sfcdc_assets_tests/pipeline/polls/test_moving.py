"""An object that gets into the channel and out of it, while it changes: its table goes on, without a copy."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from sfcdc_assets.consistent_cut import open_cut
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_reads.take_snapshot import NO_JOB
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import (
    CHANNEL,
    EmulatedPipeline,
    assert_same_rows,
    expected_rows,
    ids,
)
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

pytestmark = pytest.mark.slow

MOVED, STAYS, POLLED_ALL_THE_TIME = "Contact", "Account", "Case"
SEED = 97


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    made = make_pipeline(STAYS, MOVED, records=12)
    monkeypatch.setenv("SFCDC_POLL", f"{MOVED},{POLLED_ALL_THE_TIME}")
    monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "0")
    return made


def live(pipeline: EmulatedPipeline, dice: random.Random, *, hard: bool) -> None:
    """Some transactions, over all three objects."""
    for number in range(dice.randrange(1, 5)):
        with pipeline.org.transaction() as work:
            for entity in (MOVED, STAYS, POLLED_ALL_THE_TIME):
                for record_id in dice.sample(ids(pipeline.org, entity), 2):
                    work.update(entity, record_id, {"Description": f"{dice.random():.4f}"})
            work.create(MOVED, {"LastName": f"New {number} {dice.random():.4f}"})
            if dice.random() < 0.5:
                gone = dice.choice(ids(pipeline.org, MOVED))
                (work.hard_delete if hard and dice.random() < 0.5 else work.delete)(MOVED, gone)
        pipeline.org.clock.sleep(dice.randrange(1, 400))


def watermarks(pipeline: EmulatedPipeline) -> tuple[bool, bool]:
    """Whether the moved object's newest snapshot stands on the channel, and among the polls."""
    taken = Snapshots.open(Warehouse(str(pipeline.warehouse)), MOVED)
    assert taken is not None
    return taken.has_watermark_on(CHANNEL), taken.has_watermark_on(POLLED)


def assert_moved_equals_the_org(pipeline: EmulatedPipeline) -> None:
    """As for others; but what was deleted for good is in the table as deleted."""
    found, expected = pipeline.rows(MOVED), expected_rows(pipeline.org, MOVED)
    gone = found.keys() - expected.keys()
    assert all(found[each]["_is_deleted"] for each in gone)
    assert_same_rows(MOVED, {each: row for each, row in found.items() if each not in gone}, expected)


@pytest.mark.parametrize("moves", [7, pytest.param(20, marks=pytest.mark.soak)])
def test_an_object_that_moves_to_and_fro_under_load_equals_the_org(pipeline: EmulatedPipeline, moves: int) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    pipeline.sync()
    jobs = ApiUsage(pipeline.org).used("bulk_query")
    for move in range(moves):
        live(pipeline, dice, hard=True)
        if dice.random() < 0.2:
            pipeline.sync()
            live(pipeline, dice, hard=False)
        is_out = move % 2 == 0
        pipeline.org.selected_entities = [STAYS] if is_out else [STAYS, MOVED]
        live(pipeline, dice, hard=is_out)
        pipeline.sync()
        assert watermarks(pipeline) == (not is_out, is_out), f"move {move}"
        if move % 5 and move < moves - 1:
            continue
        live(pipeline, dice, hard=False)
        pipeline.org.clock.sleep(1000)
        pipeline.sync()
        pipeline.assert_equal_to_the_org([STAYS, POLLED_ALL_THE_TIME])
        assert_moved_equals_the_org(pipeline)
        assert_versions_follow(pipeline.all_versions(MOVED))
    assert ApiUsage(pipeline.org).used("bulk_query") == jobs, "nothing was copied"
    shown = open_cut(str(pipeline.warehouse))
    assert set(shown.entities) >= {MOVED, STAYS, POLLED_ALL_THE_TIME}
    assert shown.as_of[MOVED] is not None
    before = pipeline.rows(MOVED)
    assert sfcdc("rebuild", "--entity", MOVED).exit_code == 0
    assert_moved_equals_the_org(pipeline)
    assert pipeline.rows(MOVED).keys() == before.keys()


def test_the_moment_at_which_an_object_moved_is_in_its_ledger_and_in_its_lineage(pipeline: EmulatedPipeline) -> None:
    pipeline.sync()
    dice = random.Random(SEED)
    moments: list[tuple[str, str, int]] = []
    for selected, before, after in (([STAYS], CHANNEL, POLLED), ([STAYS, MOVED], POLLED, CHANNEL)):
        live(pipeline, dice, hard=False)
        pipeline.org.selected_entities = selected
        began = datetime.fromtimestamp(pipeline.org.clock() / 1000, UTC)
        pipeline.sync()
        taken = Snapshots.open(Warehouse(str(pipeline.warehouse)), MOVED)
        assert taken is not None
        moments.append((before, after, taken.watermark()))
        noted_at = [row["opened_at"].astimezone(UTC) for row in pipeline.scan(f"gap_reconciliation/{MOVED}")]
        assert sum(each >= began for each in noted_at) == 1
    noted = sorted(pipeline.scan(f"gap_reconciliation/{MOVED}"), key=lambda row: int(row["opened_position"]))
    assert [(row["record_id"], row["reason"], row["status"]) for row in noted] == [("*", "other_channel", "healed")] * 2
    assert [(row["channel"], row["opened_position"], row["healed_position"]) for row in noted] == [
        (after, position, position) for _, after, position in moments
    ]
    assert [row["detail"] for row in noted] == [f"{before} fed it before" for before, _, _ in moments]
    records = pipeline.instance.fetch_materializations(ASSETS.keys.snapshot, limit=20).records
    shown = [each.asset_materialization for each in records]
    of_moves = [
        tuple(each.metadata[name].value for name in ("carried_from", "channel", "position"))
        for each in shown
        if each is not None and each.partition == MOVED and "carried_from" in each.metadata
    ]
    assert of_moves == moments[::-1]
    before = [(row["opened_position"], row["opened_at"]) for row in noted]
    assert sfcdc("rebuild", "--entity", MOVED).exit_code == 0
    again = sorted(pipeline.scan(f"gap_reconciliation/{MOVED}"), key=lambda row: int(row["opened_position"]))
    assert [(row["opened_position"], row["opened_at"]) for row in again] == before, "a rebuild is no move"


def is_carried(pipeline: EmulatedPipeline) -> bool:
    """Whether the moved object's newest snapshot was taken along and not read from the org as a whole."""
    taken = Snapshots.open(Warehouse(str(pipeline.warehouse)), MOVED)
    assert taken is not None
    progress = taken.progress()
    return progress is not None and progress.complete and progress.job_id == NO_JOB


def test_an_object_takes_its_table_along_when_the_last_one_is_polled_no_more_and_when_no_channel_is_left(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(STAYS, records=6)
    monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "0")
    monkeypatch.setenv("SFCDC_POLL", MOVED)
    pipeline.sync()
    dice = random.Random(SEED)
    live(pipeline, dice, hard=True)
    monkeypatch.delenv("SFCDC_POLL")
    pipeline.org.selected_entities = [STAYS, MOVED]
    pipeline.sync()
    assert is_carried(pipeline)
    assert_moved_equals_the_org(pipeline)
    live(pipeline, dice, hard=False)
    monkeypatch.setenv("SFCDC_CHANNELS", "none")
    monkeypatch.setenv("SFCDC_POLL", f"{STAYS},{MOVED}")
    pipeline.sync()
    assert is_carried(pipeline)
    assert_moved_equals_the_org(pipeline)


def test_what_was_before_an_object_moved_is_in_its_history_after_a_rebuild(pipeline: EmulatedPipeline) -> None:
    pipeline.sync()
    dice = random.Random(SEED)
    live(pipeline, dice, hard=False)
    pipeline.sync()
    live(pipeline, dice, hard=False)
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()
    live(pipeline, dice, hard=False)
    pipeline.org.clock.sleep(1000)
    pipeline.sync()
    before = periods(pipeline)
    for _ in range(2):
        rebuilt = sfcdc("rebuild", "--entity", MOVED)
        assert rebuilt.exit_code == 0, rebuilt.output
        assert periods(pipeline) == before
        assert_versions_follow(pipeline.all_versions(MOVED))


def periods(pipeline: EmulatedPipeline) -> set[tuple[object, ...]]:
    """What the records were, and for how long. A copy and a poll say in whole seconds when."""
    return {
        (each["Id"], _second(each["_valid_from"]), _second(each["_valid_to"]), each["Description"], each["_is_deleted"])
        for each in pipeline.all_versions(MOVED)
    }


def _second(moment: datetime | None) -> datetime | None:
    return moment.replace(microsecond=0) if moment else None
