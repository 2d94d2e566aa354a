"""An object that gets another channel while somebody still reads it as one of the channel before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets.lake.store.poll_notes import failed_polls
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.org_reads.read_back import read_back_suspects
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import session_of_tests
from sfcdc_assets_tests.pipeline.polls.polled_org import last_reading, reading, rename
from sfcdc_assets_tests.run_contexts import run_on

pytestmark = pytest.mark.slow

MOVED, STAYS, OTHER = "Contact", "Account", "Case"


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    made = make_pipeline(STAYS, MOVED, records=6)
    monkeypatch.setenv("SFCDC_POLL", f"{MOVED},{OTHER}")
    monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "0")
    return made


def poll_another(pipeline: EmulatedPipeline, times: int) -> None:
    """Another process polls another object, to which each time something has happened."""
    with reading(pipeline) as (another, _, _):
        for number in range(times):
            rename(pipeline, OTHER, 1, f"another object is polled {number}")
            pipeline.org.clock.sleep(1000)
            another.land(TICK)


def test_no_event_is_taken_for_known_by_a_poll_that_ends_after_its_object_got_into_a_channel(
    pipeline: EmulatedPipeline,
) -> None:
    """Polls have positions of their own, and those of a channel's events may be lower for long."""
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()

    def move() -> None:
        reader.on_events = lambda: None
        pipeline.org.selected_entities = [STAYS, MOVED]
        pipeline.sync()
        poll_another(pipeline, 9)
        rename(pipeline, MOVED, 2, "changed when it had moved")
        pipeline.org.clock.sleep(60)

    with reading(pipeline) as (reader, _, warehouse):
        rename(pipeline, MOVED, 2, "polled while it moves")
        pipeline.org.clock.sleep(1000)
        reader.on_events = move
        reader.land(TICK)
        assert failed_polls(warehouse) == {}
    rename(pipeline, MOVED, 2, "told by an event")
    pipeline.org.clock.sleep(60)
    pipeline.sync()
    pipeline.assert_equal_to_the_org([STAYS, MOVED])


def test_a_record_is_not_read_back_at_a_position_of_a_channel_that_its_object_has_left(
    pipeline: EmulatedPipeline,
) -> None:
    pipeline.sync()
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()
    with reading(pipeline) as (_, connected, warehouse):
        suspect = NewSuspect(ids(pipeline.org, MOVED)[0], Reason.DRIFT, 1, "by an audit")
        ledger, now_ms = Ledger.open_or_create(warehouse, MOVED), pipeline.org.clock()
        ledger.note([suspect], CHANNEL, 1, now_ms)
        run = run_on(warehouse, connected, session_of_tests, visibility_seconds=0.0)
        landed = Watermarks(run, LandedOnly(warehouse, {CHANNEL: now_ms, POLLED: now_ms}))
        before = last_reading(warehouse, MOVED)
        assert read_back_suspects(run, MOVED, CHANNEL, landed) is None
        assert last_reading(warehouse, MOVED) == before
        assert read_back_suspects(run, MOVED, POLLED, landed) is not None
        assert last_reading(warehouse, MOVED) == before + 1
