"""Events that are older than the copy of their entity: landed for the record, and nothing in the tables changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.landing import land as land_module
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.stepwise import connected
from sfcdc_assets_tests.pipeline.story import RETRIEVE
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, stream

__all__ = ["no_settings_but_the_tests_own"]

pytestmark = pytest.mark.slow

PATIENCE = PollTimeouts(320.0, 1.0, 600.0)
MakePipeline = Callable[..., EmulatedPipeline]


def set_name(pipeline: EmulatedPipeline, record_id: str, name: str) -> None:
    with pipeline.org.transaction() as work:
        work.update("Account", record_id, {"Name": name})


def name_at(pipeline: EmulatedPipeline, record_id: str, moment_ms: int) -> list[str]:
    """What history says that the record's name was."""
    at = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return [
        row["Name"]
        for row in pipeline.all_versions("Account")
        if row["Id"] == record_id and row["_valid_from"] <= at and (row["_valid_to"] is None or at < row["_valid_to"])
    ]


def test_history_is_what_the_org_was_when_a_start_at_latest_is_followed_by_one_at_earliest(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start at LATEST left events out, and a lost checkpoint brings them at later positions."""
    pipeline = make_pipeline("Account", records=5)
    record_id, other = ids(pipeline.org, "Account")[:2]
    for number in range(3):
        set_name(pipeline, record_id, f"before the copy {number}")
        clock.sleep(60)
    monkeypatch.setenv("SFCDC_REPLAY_PRESET", "LATEST")
    pipeline.sync()
    set_name(pipeline, record_id, "after the copy")
    pipeline.sync()
    noted = clock.now_ms()
    clock.sleep(3600)
    set_name(pipeline, other, "while nobody looked")
    clock.sleep(3600)
    monkeypatch.setenv("SFCDC_REPLAY_PRESET", "EARLIEST")
    monkeypatch.setenv("SFCDC_TRANSPORT", "cometd")
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    for minutes in range(1, 121, 7):
        assert name_at(pipeline, record_id, noted + minutes * 60_000) == ["after the copy"]
    assert name_at(pipeline, other, noted + 3_700_000) == ["while nobody looked"], "what is new is in history"
    landed = [row for row in pipeline.scan("raw_events") if record_id in row["record_ids"]]
    assert len(landed) == 4, "for the record, once each"


def test_a_first_copy_keeps_what_it_read_though_older_events_were_stored_and_came_just_before(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "60")
    pipeline = make_pipeline("Account", records=5)
    record_id = ids(pipeline.org, "Account")[0]
    set_name(pipeline, record_id, "told by an event")
    clock.sleep(3600)
    silently(pipeline, record_id, "told by none")
    pipeline.sensor_tick()
    pipeline.launch("snapshot", "Account")
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    assert pipeline.rows("Account")[record_id]["Name"] == "told by none"


def test_events_that_come_late_do_not_undo_what_a_first_copy_read(make_pipeline: MakePipeline) -> None:
    """The copy has its watermark before them: the stream had not brought them when it was made."""
    pipeline = make_pipeline("Account", records=5)
    record_id = ids(pipeline.org, "Account")[0]
    set_name(pipeline, record_id, "told by an event")
    clock.sleep(3600)
    silently(pipeline, record_id, "told by none")
    pipeline.launch("snapshot", "Account")
    set_name(pipeline, ids(pipeline.org, "Account")[1], "new")
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


def test_an_event_of_shortly_before_a_copy_does_not_undo_what_the_copy_shows_of_later(
    make_pipeline: MakePipeline,
) -> None:
    """So shortly that its transaction could have run on while the copy was made: what the record says decides."""
    pipeline = make_pipeline("Account", records=5)
    record_id = ids(pipeline.org, "Account")[0]
    set_name(pipeline, record_id, "told by an event")
    clock.sleep(120)
    now = pipeline.org.clock() // 1000 * 1000
    silently(pipeline, record_id, "told by none", LastModifiedDate=now, SystemModstamp=now)
    clock.sleep(60)
    with connected(pipeline) as copy:
        take_snapshot(copy.run, ToCopy("Account", CHANNEL), lambda least: max(least, 0))
        copy.catch_up()
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    (entry,) = pipeline.scan("gap_reconciliation/Account")
    assert (entry["record_id"], entry["reason"], entry["status"]) == (record_id, "silent_change", "healed")


def test_a_backlog_does_not_undo_what_a_read_back_showed_while_it_was_not_landed_yet(
    make_pipeline: MakePipeline,
) -> None:
    """The stream fails, and read-backs go on: events that were committed before one come after it. Each record says for
    itself what it was read back for."""
    pipeline = make_pipeline("Account", records=5)
    record_id, other = ids(pipeline.org, "Account")[:2]
    pipeline.sync()
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)  # the event says no more than that the record changed
    with pipeline.org.transaction() as work:
        work.update("Account", record_id, {"Phone": "12345"})
    pipeline.server.rest_faults.arm(RestFault.UNAVAILABLE, 1_000, path=RETRIEVE)
    pipeline.sync()
    pipeline.server.faults.arm(Fault.CALL_REFUSED, 10_000, code="service.unavailable")
    with pipeline.org.transaction() as work:
        work.update("Account", record_id, {"Name": "told by an event"})
        work.update("Account", other, {"Name": "of the same transaction"})
    clock.sleep(3600)
    silently(pipeline, record_id, "told by none")
    pipeline.server.rest_faults.disarm(RestFault.UNAVAILABLE)
    with pytest.raises(SfcdcError, match=r"service\.unavailable"):
        pipeline.sync()
    assert pipeline.rows("Account")[record_id]["Name"] == "told by none"
    pipeline.server.faults.disarm(Fault.CALL_REFUSED)
    clock.sleep(600)
    set_name(pipeline, ids(pipeline.org, "Account")[2], "new")
    pipeline.sync()
    assert pipeline.rows("Account")[other]["Name"] == "of the same transaction"
    pipeline.assert_equal_to_the_org()


def silently(pipeline: EmulatedPipeline, record_id: str, name: str, **stamps: int) -> None:
    """A change that raises no event, and but for the stamps given leaves all of them as they were."""
    with pipeline.org.database.transaction():
        pipeline.org.store.update(pipeline.org.definitions["Account"], record_id, {"Name": name, **stamps})


def test_nothing_is_landed_twice_after_a_lost_checkpoint_though_something_new_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stream(tmp_path) as watched:
        watched.update(0, Name="older than the start")
        with connect(Settings(replay_preset="LATEST")) as connected:
            reader = ChannelReader(watched.warehouse, connected, CHANNEL, SETTLE)
            reader.land(PATIENCE)
            for number in range(150):
                if number in (20, 90):
                    watched.server.faults.arm(Fault.GARBLED_HEADER)
                watched.update(number % 40, Name=f"n{number}")
            for _ in range(3):
                reader.land(PATIENCE)
            reader.close()
        watched.org.change_instance()
        monkeypatch.setattr(land_module, "COMMIT_EVENTS", 10)
        with connect(load_settings()) as connected:
            reader = ChannelReader(watched.warehouse, connected, CHANNEL, SETTLE)
            for _ in range(4):
                reader.land(PATIENCE)
            reader.close()
        landed = Counter(
            (row["transaction_key"], row["sequence_number"], *row["record_ids"]) for row in watched.landed()
        )
        table = Table.open(watched.warehouse, "quarantine")
        assert table is not None
        unread = table.count()
    assert len(landed) == 151 - 2
    assert set(landed.values()) == {1}
    assert unread == 2
