"""An object that gets another channel while a transaction is open for long, or has ended a short time before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.polls.cursor import REREAD
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.polls.polled_org import reading

pytestmark = pytest.mark.slow

MOVED, STAYS = "Contact", "Account"
LONG = 3 * REREAD.total_seconds()


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    made = make_pipeline(STAYS, MOVED, records=6)
    monkeypatch.setenv("SFCDC_POLL", MOVED)
    monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "0")
    return made


def change(pipeline: EmulatedPipeline, record_id: str, value: str) -> None:
    with pipeline.org.transaction() as work:
        work.update(MOVED, record_id, {"Description": value})


def test_what_was_open_while_an_object_got_out_of_a_channel_is_read_when_it_has_ended(
    pipeline: EmulatedPipeline,
) -> None:
    pipeline.sync()
    first, second, *_ = ids(pipeline.org, MOVED)
    held = pipeline.org.long_transactions.begin()
    held.update(MOVED, first, {"Description": "open while the object moved"})
    pipeline.org.clock.sleep(LONG)
    change(pipeline, second, "seen by its event")
    pipeline.sync()
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()
    held.commit()
    for _ in range(2):
        pipeline.org.clock.sleep(1000)
        pipeline.sync()
    pipeline.assert_equal_to_the_org([MOVED])


def test_what_a_poll_has_read_and_no_run_applied_is_in_the_table_of_an_object_that_gets_into_a_channel(
    pipeline: EmulatedPipeline,
) -> None:
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()
    first, second, *_ = ids(pipeline.org, MOVED)
    pipeline.org.clock.sleep(1000)
    held = pipeline.org.long_transactions.begin()
    held.update(MOVED, first, {"Description": "open while it was polled"})
    pipeline.org.clock.sleep(LONG)
    pipeline.sync()
    pipeline.org.clock.sleep(LONG)
    change(pipeline, second, "polled, and not applied")
    pipeline.org.clock.sleep(60)
    with reading(pipeline) as (reader, _, _):
        assert reader.land(TICK).events[MOVED]
    held.commit()
    pipeline.org.selected_entities = [STAYS, MOVED]
    pipeline.sync()
    pipeline.assert_equal_to_the_org([MOVED])


def test_a_sensor_that_polled_before_an_object_moved_reads_what_was_open_too(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SFCDC_POLL")
    pipeline.sync()
    monkeypatch.setenv("SFCDC_POLL", MOVED)
    first, second, *_ = ids(pipeline.org, MOVED)
    with reading(pipeline) as (reader, _, _):
        reader.land(TICK)
        held = pipeline.org.long_transactions.begin()
        held.update(MOVED, first, {"Description": "open while the object moved"})
        pipeline.org.clock.sleep(LONG)
        change(pipeline, second, "seen by its event")
        pipeline.sync()
        pipeline.org.selected_entities = [STAYS]
        pipeline.sync()
        held.commit()
        pipeline.org.clock.sleep(1000)
        reader.land(TICK)
    pipeline.sync()
    pipeline.assert_equal_to_the_org([MOVED])


def test_what_ended_between_the_last_event_and_the_move_is_read_though_it_had_been_open_for_long(
    pipeline: EmulatedPipeline,
) -> None:
    pipeline.sync()
    first, second, *_ = ids(pipeline.org, MOVED)
    held = pipeline.org.long_transactions.begin()
    held.update(MOVED, first, {"Description": "open for long, and not seen by the channel"})
    pipeline.org.clock.sleep(LONG)
    change(pipeline, second, "seen by its event")
    pipeline.sync()
    pipeline.org.selected_entities = [STAYS]
    held.commit()
    pipeline.org.clock.sleep(60)
    pipeline.sync()
    pipeline.assert_equal_to_the_org([MOVED])
