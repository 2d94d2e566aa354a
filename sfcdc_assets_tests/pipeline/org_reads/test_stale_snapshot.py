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
from sfcdc_assets_tests.pipeline.lives.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, LEDGER, LONGEST_LAG_MS, QuietLife, quiet

pytestmark = pytest.mark.slow

LAG_MS = LONGEST_LAG_MS // 2
LAYERS = ("current_state", "history")


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as life:
        yield life


def change(life: QuietLife) -> tuple[str, str, str, str]:
    """Ids of a created, an updated, a deleted and an undeleted account, all of which REST shows late."""
    updated, deleted, undeleted, *_ = life.ids()
    with life.org.transaction() as work:
        work.delete(ENTITY, undeleted)
    life.clock.advance(LAG_MS + 1)
    life.settings(rest_delay=LAG_MS)
    with life.org.transaction() as work:
        created = work.create(ENTITY, {"Name": "not shown yet"})
        work.update(ENTITY, updated, {"Name": "not so yet"})
        work.undelete(ENTITY, undeleted)
    with life.org.transaction() as work:  # of its own: beside the update it would be read back, as it may be a merge
        work.delete(ENTITY, deleted)
    life.clock.advance(1_000)
    return created, updated, deleted, undeleted


def reasons(life: QuietLife) -> dict[str, str]:
    return {record_id: suspect["reason"] for record_id, suspect in life.open_suspects().items()}


def layers(life: QuietLife) -> list[list[dict[str, Any]]]:
    found = [rows_of(life.warehouse, f"{layer}/{ENTITY}") for layer in LAYERS]
    of_no_batch = [[{**row, "_batch": None, "_first_batch": None} for row in rows] for rows in found]
    return [sorted(rows, key=lambda row: (row["Id"], row["_position"])) for rows in of_no_batch]


@pytest.mark.parametrize("applied_before", [True, False])
def test_what_contradicts_recent_events_is_made_suspect_and_the_rest_is_applied(
    life: QuietLife, applied_before: bool
) -> None:
    life.sync()
    before = life.version()
    created, updated, *_ = changed = change(life)
    if applied_before:
        life.catch_up()
    life.snapshot()
    life.catch_up()
    for rows in life.rows_since(before):
        assert "hard_deleted" not in {row["_deleted_reason"] for row in rows.values()}
        assert not [rows[record_id] for record_id in {created, updated} & rows.keys() if rows[record_id]["_is_deleted"]]
    assert life.suspects() == set(changed)
    assert reasons(life) == dict.fromkeys(changed, "stale_snapshot")
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    life.assert_equal()


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


def test_the_first_snapshot_of_all_is_compared_too(life: QuietLife) -> None:
    """The channel is landed before the table is there: a record that REST does not show would be missing for ever."""
    life.clock.advance(LAG_MS)
    created = change(life)[0]
    life.sync()
    life.clock.advance(LONGEST_LAG_MS)
    life.sync()
    assert created in life.rows()
    life.assert_equal()


def test_a_record_that_was_created_and_deleted_just_before_a_copy_that_shows_neither_is_read_from_the_recycle_bin(
    life: QuietLife,
) -> None:
    life.clock.advance(LAG_MS)
    created = change(life)[0]
    with life.org.transaction() as work:
        work.delete(ENTITY, created)
    life.sync()
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    assert life.rows()[created]["_deleted_reason"] == "deleted"
    life.assert_equal()


def test_a_record_that_is_gone_without_an_event_is_believed_to_be_gone_when_its_last_event_is_old(
    life: QuietLife,
) -> None:
    life.sync()
    record_id = life.ids()[0]
    life.update(record_id, Name="its last change")
    life.catch_up()
    with life.org.transaction() as work:
        work.delete(ENTITY, record_id)
    life.catch_up()
    with life.org.transaction() as work:
        work.undelete(ENTITY, record_id)
    life.catch_up()
    life.server.faults.arm(Fault.LOST_EVENT)
    with life.org.transaction() as work:
        work.hard_delete(ENTITY, record_id)
    life.snapshot()
    life.catch_up()
    assert reasons(life) == {record_id: "stale_snapshot"}
    assert not life.rows()[record_id]["_is_deleted"]
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    assert life.rows()[record_id]["_deleted_reason"] == "hard_deleted"
    assert not life.open_suspects()


def test_a_snapshot_of_an_org_that_shows_the_present_makes_nothing_suspect(life: QuietLife) -> None:
    life.sync()
    change(life)
    life.settings(rest_delay=0)
    life.snapshot()
    life.catch_up()
    assert rows_of(life.warehouse, LEDGER) == []
    life.assert_equal()


def test_rebuilding_from_snapshots_that_were_not_believed_gives_the_same_rows(life: QuietLife) -> None:
    life.sync()
    change(life)
    first = life.snapshot()
    life.catch_up()
    assert life.open_suspects()
    second = life.snapshot()
    assert (second.number, second.position) == (first.number + 1, first.position)
    life.catch_up()
    assert life.open_suspects(), "the second snapshot of one watermark raises entries of its own"
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    before = layers(life)
    life.rebuild()
    assert layers(life) == before
    life.assert_equal()


def test_an_unreadable_event_before_the_first_snapshot_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot may have its watermark before it: it was received just now."""
    with quiet(tmp_path, monkeypatch) as life:
        life.server.faults.arm(Fault.GARBLED_HEADER)
        life.update(life.ids()[0], Name="nobody can read it")
        landed = life.poll()
        (suspect,) = life.open_suspects().values()
        assert (suspect["record_id"], suspect["opened_position"]) == ("*", landed)
