"""A snapshot that shows an older state than the events before its watermark is not believed where it contradicts
them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.org_reads.stale_reads import older_than_events
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, LEDGER, LONGEST_LAG_MS, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of

pytestmark = pytest.mark.slow

LAG_MS = LONGEST_LAG_MS // 2
LAYERS = ("current_state", "history")


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        yield pipeline


def change(pipeline: QuietPipeline) -> tuple[str, str, str, str]:
    """Ids of a created, an updated, a deleted and an undeleted account, all of which REST shows late."""
    updated, deleted, undeleted, *_ = pipeline.ids()
    with pipeline.org.transaction() as work:
        work.delete(ENTITY, undeleted)
    pipeline.clock.advance(LAG_MS + 1)
    pipeline.settings(rest_delay=LAG_MS)
    with pipeline.org.transaction() as work:
        created = work.create(ENTITY, {"Name": "not shown yet"})
        work.update(ENTITY, updated, {"Name": "not so yet"})
        work.undelete(ENTITY, undeleted)
    with (
        pipeline.org.transaction() as work
    ):  # of its own: beside the update it would be read back, as it may be a merge
        work.delete(ENTITY, deleted)
    pipeline.clock.advance(1_000)
    return created, updated, deleted, undeleted


def reasons(pipeline: QuietPipeline) -> dict[str, str]:
    return {record_id: suspect["reason"] for record_id, suspect in pipeline.open_suspects().items()}


def layers(pipeline: QuietPipeline) -> list[list[dict[str, Any]]]:
    found = [rows_of(pipeline.warehouse, f"{layer}/{ENTITY}") for layer in LAYERS]
    of_no_batch = [[{**row, "_batch": None, "_first_batch": None} for row in rows] for rows in found]
    return [sorted(rows, key=lambda row: (row["Id"], row["_position"])) for rows in of_no_batch]


@pytest.mark.parametrize("applied_before", [True, False])
def test_what_contradicts_recent_events_is_made_suspect_and_the_rest_is_applied(
    pipeline: QuietPipeline, applied_before: bool
) -> None:
    pipeline.sync()
    before = pipeline.version()
    created, updated, *_ = changed = change(pipeline)
    if applied_before:
        pipeline.catch_up()
    pipeline.snapshot()
    pipeline.catch_up()
    for rows in pipeline.rows_since(before):
        assert "hard_deleted" not in {row["_deleted_reason"] for row in rows.values()}
        assert not [rows[record_id] for record_id in {created, updated} & rows.keys() if rows[record_id]["_is_deleted"]]
    assert pipeline.suspects() == set(changed)
    assert reasons(pipeline) == dict.fromkeys(changed, "stale_snapshot")
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    pipeline.assert_equal()


@pytest.mark.parametrize(
    ("modified", "commits", "believed"),
    [
        (10.0, [10.4], True),
        (8.0, [10.0], True),  # SystemModstamp may be a second or two before the time of the commit
        (7.0, [10.0], False),
        (8.0, [8.0, 10.0], False),  # ... but here the first change explains it better
        (9.0, [8.0, 10.0], False),
        (10.0, [8.0, 10.0], True),
        (10.0, [10.1, 10.9], True),  # both in one second: the org shows either both or, for an instant, the first
    ],
)
def test_a_row_that_an_earlier_change_explains_as_well_is_not_taken_to_be_after_the_last(
    modified: float, commits: list[float], believed: bool
) -> None:
    rows = pl.DataFrame({"Id": ["a"], "_system_modstamp": [datetime.fromtimestamp(modified, UTC)]})
    events = pl.DataFrame(
        {
            "record_id": ["a"] * len(commits),
            "transaction_key": [str(commit) for commit in commits],
            "commit_timestamp": [datetime.fromtimestamp(commit, UTC) for commit in commits],
            "position": list(range(1, len(commits) + 1)),
        }
    )
    assert older_than_events(rows, events) == (set() if believed else {"a"})


def test_the_first_snapshot_of_all_is_compared_too(pipeline: QuietPipeline) -> None:
    """The channel is landed before the table is there: a record that REST does not show would be missing for ever."""
    pipeline.clock.advance(LAG_MS)
    created = change(pipeline)[0]
    pipeline.sync()
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.sync()
    assert created in pipeline.rows()
    pipeline.assert_equal()


def test_a_record_that_was_created_and_deleted_just_before_a_copy_that_shows_neither_is_read_from_the_recycle_bin(
    pipeline: QuietPipeline,
) -> None:
    pipeline.clock.advance(LAG_MS)
    created = change(pipeline)[0]
    with pipeline.org.transaction() as work:
        work.delete(ENTITY, created)
    pipeline.sync()
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    assert pipeline.rows()[created]["_deleted_reason"] == "deleted"
    pipeline.assert_equal()


def test_a_record_that_is_gone_without_an_event_is_believed_to_be_gone_when_its_last_event_is_old(
    pipeline: QuietPipeline,
) -> None:
    pipeline.sync()
    record_id = pipeline.ids()[0]
    pipeline.update(record_id, Name="its last change")
    pipeline.catch_up()
    with pipeline.org.transaction() as work:
        work.delete(ENTITY, record_id)
    pipeline.catch_up()
    with pipeline.org.transaction() as work:
        work.undelete(ENTITY, record_id)
    pipeline.catch_up()
    pipeline.server.faults.arm(Fault.LOST_EVENT)
    with pipeline.org.transaction() as work:
        work.hard_delete(ENTITY, record_id)
    pipeline.snapshot()
    pipeline.catch_up()
    assert reasons(pipeline) == {record_id: "stale_snapshot"}
    assert not pipeline.rows()[record_id]["_is_deleted"]
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    assert pipeline.rows()[record_id]["_deleted_reason"] == "hard_deleted"
    assert not pipeline.open_suspects()


def test_a_snapshot_of_an_org_that_shows_the_present_makes_nothing_suspect(pipeline: QuietPipeline) -> None:
    pipeline.sync()
    change(pipeline)
    pipeline.settings(rest_delay=0)
    pipeline.snapshot()
    pipeline.catch_up()
    assert rows_of(pipeline.warehouse, LEDGER) == []
    pipeline.assert_equal()


def test_rebuilding_from_snapshots_that_were_not_believed_gives_the_same_rows(pipeline: QuietPipeline) -> None:
    pipeline.sync()
    change(pipeline)
    first = pipeline.snapshot()
    pipeline.catch_up()
    assert pipeline.open_suspects()
    second = pipeline.snapshot()
    assert (second.number, second.position) == (first.number + 1, first.position)
    pipeline.catch_up()
    assert pipeline.open_suspects(), "the second snapshot of one watermark raises entries of its own"
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    before = layers(pipeline)
    pipeline.rebuild()
    assert layers(pipeline) == before
    pipeline.assert_equal()


def test_an_unreadable_event_before_the_first_snapshot_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot may have its watermark before it: it was received just now."""
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.server.faults.arm(Fault.GARBLED_HEADER)
        pipeline.update(pipeline.ids()[0], Name="nobody can read it")
        landed = pipeline.poll()
        (suspect,) = pipeline.open_suspects().values()
        assert (suspect["record_id"], suspect["opened_position"]) == ("*", landed)
