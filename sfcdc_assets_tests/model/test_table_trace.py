"""Commits of the program's own tables are read as steps of the model, and one that it does not have is named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.tables.lost_checkpoints import lose_checkpoint
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import EARLIEST, StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.model.relation import Appended, Followed, Landed, NotAllowed
from sfcdc_assets_tests.model.table_trace import read_trace, recorded
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.removed_layers import remove_layers
from sfcdc_assets_tests.pipeline.stepwise import connected

CHANNEL = "/data/ChangeEvents"
MakePipeline = Callable[..., EmulatedPipeline]


def events(positions: range, transaction: str) -> pa.Table:
    rows = [
        {
            "channel": CHANNEL,
            "position": position,
            "replay_id": bytes([position]),
            "event_id": f"event-{position}",
            "payload": b"payload of %d" % position,
            "entity_name": "Account",
            "record_ids": [f"001{position}"],
            "received_at": datetime(2026, 1, 1, tzinfo=UTC),
            "transaction_key": transaction,
        }
        for position in positions
    ]
    return pa.Table.from_pylist(rows, schema=RAW_EVENTS)


def checkpoint_at(position: int, complete: int, transaction: str) -> StreamCheckpoint:
    resume = ResumePoint(bytes([position]))
    return StreamCheckpoint(CHANNEL, position, complete, resume, transaction, begun=EARLIEST)


def test_what_a_channel_landed_and_lost_is_followed(tmp_path: Path) -> None:
    warehouse, followed = Warehouse(str(tmp_path)), Followed()
    with recorded(followed):
        RawEvents.open(warehouse).commit(events(range(1, 3), "a"), checkpoint_at(2, 0, "a"))
        RawEvents.open(warehouse).commit(events(range(3, 4), "b"), checkpoint_at(3, 2, "b"))
        RawEvents.open(warehouse).note(checkpoint_at(3, 3, "b"))
        table = RawEvents.open(warehouse)
        lose_checkpoint(warehouse, table, table.checkpoint(CHANNEL), "refused", 1)
    assert followed.counts == {"Landed": 4}
    trace = [each for each in read_trace(tmp_path) if isinstance(each, Landed)]
    assert [(each.position, each.complete, len(each.rows), each.is_break) for each in trace] == [
        (2, 0, 2, False),
        (3, 2, 1, False),
        (3, 3, 0, False),
        (4, 4, 0, True),
    ]


def test_a_commit_after_some_that_another_client_made_and_cleaned_up_is_followed(tmp_path: Path) -> None:
    warehouse, followed = Warehouse(str(tmp_path)), Followed()
    with recorded(followed):
        RawEvents.open(warehouse).commit(events(range(1, 3), "a"), checkpoint_at(2, 0, "a"))
        other = RawEvents.open(warehouse).table
        for _ in range(2):
            write_deltalake(tmp_path / "raw_events", other.schema.empty_table(), mode="append")
        DeltaTable(tmp_path / "raw_events").create_checkpoint()
        for left in sorted((tmp_path / "raw_events" / "_delta_log").glob("*.json"))[:-1]:
            left.unlink()
        RawEvents.open(warehouse).commit(events(range(3, 4), "b"), checkpoint_at(3, 2, "b"))
    assert followed.counts == {"Landed": 2}


def test_tables_that_were_removed_and_made_again_begin_again(make_pipeline: MakePipeline) -> None:
    """Before the first batch that is written into the new ones, which is not numbered after the last one of the old."""
    pipeline, followed = make_pipeline("Account", records=3), Followed()
    with recorded(followed), connected(pipeline) as copy:
        copy.snapshot()
        for number in range(3):
            with pipeline.org.transaction() as work:
                work.update("Account", ids(pipeline.org, "Account")[0], {"Name": f"n{number}"})
            copy.catch_up()
        before = followed.counts["Appended"]
        remove_layers(copy.warehouse, "Account")
        copy.catch_up()
    assert followed.counts["Appended"] > before >= 3


def test_what_is_left_of_logs_that_maintenance_has_thinned_out_is_followed(make_pipeline: MakePipeline) -> None:
    pipeline, followed, whole = make_pipeline("Account", records=3), Followed(), Followed()
    with connected(pipeline) as copy:
        copy.snapshot()
        for number in range(6):
            with pipeline.org.transaction() as work:
                work.update("Account", ids(pipeline.org, "Account")[0], {"Name": f"n{number}"})
            copy.catch_up()
    whole.take_all(read_trace(pipeline.warehouse))
    for layer in ("current_state", "history"):
        log = sorted((pipeline.warehouse / layer / "Account" / "_delta_log").glob("*.json"))
        for gone in (*log[:-5], log[-3]):
            gone.unlink()
    followed.take_all(read_trace(pipeline.warehouse))
    assert (followed.counts["Appended"], followed.counts["Committed"]) == (4, 4)
    assert whole.counts["Committed"] >= 7
    with pytest.raises(NotAllowed, match="the last batch is"):
        followed.take(Appended("Account", 99, 99))


def test_a_copy_whose_rows_were_packed_and_deleted_since_is_still_followed(make_pipeline: MakePipeline) -> None:
    pipeline, followed = make_pipeline("Account", records=3), Followed()
    with connected(pipeline) as copy:
        copy.snapshot()
        copy.catch_up()
        for file in (pipeline.warehouse / "snapshot" / "Account").rglob("*.parquet"):
            if "_delta_log" not in file.parts:
                file.unlink()
    followed.take_all(read_trace(pipeline.warehouse))
    assert followed.counts["ReadDone"] == 1
    assert followed.counts["Committed"] >= 2


@pytest.mark.parametrize(
    ("rows", "checkpoint", "guarantee"),
    [
        (events(range(3, 4), "a"), checkpoint_at(3, 2, "a"), "whole transactions"),
        (events(range(2, 4), "b"), checkpoint_at(3, 1, "b"), "once"),
        (events(range(0), "b"), checkpoint_at(1, 1, "b"), "our own order"),
    ],
    ids=["half a transaction", "an event again", "back"],
)
def test_a_commit_that_the_model_does_not_have_is_named(
    tmp_path: Path, rows: pa.Table, checkpoint: StreamCheckpoint, guarantee: str
) -> None:
    warehouse = Warehouse(str(tmp_path))

    def land() -> None:
        with recorded(Followed()):
            RawEvents.open(warehouse).commit(events(range(1, 3), "a"), checkpoint_at(2, 0, "a"))
            RawEvents.open(warehouse).commit(rows, checkpoint)

    with pytest.raises(NotAllowed) as refused:
        land()
    assert refused.value.guarantee == guarantee
