"""Streams as they really are: late, quiet, cut in the middle of a group or a transaction, and read for a long time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.poll_timeouts import TICK, WATERMARK
from sfcdc_assets.landing.response_waits import ResponseWaits
from sfcdc_assets.landing.subscription_reader import LOOK_SECONDS
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream

__all__ = ["no_settings_but_the_tests_own"]

pytestmark = pytest.mark.slow

HOUR = 3600


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path) as opened:
        yield opened


# -- a pause inside a replay id


@pytest.mark.parametrize("seconds", [0.5, 1.1, 6.0, 60.0])
def test_a_pause_between_events_of_one_replay_id_loses_none_of_them_to_polls(weather: Stream, seconds: float) -> None:
    weather.update(39)
    weather.siblings(*range(8))
    weather.pause(after=5, seconds=seconds)
    weather.poll()
    weather.poll_until_settled()
    assert weather.records_landed() == weather.ids(39, *range(8))


@pytest.mark.parametrize("seconds", [1.1, 6.0, 60.0])
def test_a_pause_between_events_of_one_replay_id_loses_none_of_them_to_ticks(weather: Stream, seconds: float) -> None:
    reader = weather.reader()
    weather.tick(reader)
    weather.pause(after=4, seconds=seconds)
    weather.siblings(*range(8))
    for _ in range(20):
        weather.pass_time(5)
        weather.tick(reader)
    assert weather.records_landed() == weather.ids(*range(8))
    assert weather.delivered == 8


def test_a_process_that_dies_in_the_pause_leaves_a_resume_point_before_the_group_and_nothing_doubled(
    weather: Stream,
) -> None:
    weather.update(39)
    weather.siblings(*range(8))
    weather.pause(after=5, seconds=30)
    reader = weather.reader()
    reader.land(WATERMARK)
    assert weather.records_landed() == weather.ids(39, 0, 1, 2, 3)
    checkpoint = weather.checkpoint()
    assert len(checkpoint.resume.open_marks) == 4
    weather.disown(reader)
    weather.poll_until_settled()
    weather.update(12)
    weather.poll_until_settled()
    assert weather.records_landed() == weather.ids(39, *range(8), 12)
    assert [row["position"] for row in weather.landed()] == list(range(1, 11))


# -- the first response


def test_a_first_response_that_takes_long_is_waited_for_and_its_events_are_paid_once(weather: Stream) -> None:
    for number in range(30):
        weather.update(number)
    weather.server.faults.arm(Fault.LATE_ANSWER, seconds=40)
    report = weather.poll()
    assert (report.count, report.has_answered, weather.delivered) == (30, True, 30)


def test_ticks_land_a_late_first_response_when_it_comes_and_claim_nothing_before(weather: Stream) -> None:
    for number in range(30):
        weather.update(number)
    weather.server.faults.arm(Fault.LATE_ANSWER, seconds=40)
    reader = weather.reader()
    for _ in range(7):
        report = reader.land(TICK_NOW)
        assert (report.count, report.has_answered, report.complete_position) == (0, False, 0)
        weather.pass_time(5)
    weather.pass_time(10)
    assert weather.tick(reader).count == 30
    assert weather.delivered == 30


TICK_NOW = WATERMARK.__class__(first_answer=0.0, quiet=0.0, budget=20.0, goes_on=True)
"""A tick that waits for nothing: simulated time passes only where a test lets it."""


def test_a_stream_that_never_answers_a_poll_is_an_outage_and_not_an_empty_channel(weather: Stream) -> None:
    weather.server.faults.arm(Fault.SILENT_STREAM)
    with pytest.raises(PubSubUnavailable, match="no sign of life"):
        weather.poll()


# -- quiet channels


def test_a_quiet_channel_that_is_ticked_keeps_a_fresh_checkpoint_for_days(weather: Stream) -> None:
    weather.update(1)
    reader = weather.reader()
    # Time may pass when the stream has answered: to the org, one that is opened slowly would have been silent for it.
    assert any(weather.tick(reader).count for _ in range(20))
    for _ in range(80 * HOUR // 250):
        weather.pass_time(250)
        weather.tick(reader)
    weather.disown(reader)
    weather.update(2)
    report = weather.poll()
    assert report.lost_checkpoint is None
    assert weather.records_landed() == weather.ids(1, 2)
    assert weather.delivered == 2
    assert weather.checkpoint().begun_at_ms == 1_735_689_600_000 or weather.checkpoint().position == 2


@pytest.mark.parametrize("every_hours", [4, 11])
def test_a_quiet_channel_that_is_polled_now_and_then_never_loses_its_checkpoint(
    weather: Stream, every_hours: int
) -> None:
    weather.update(1)
    weather.update(2)
    for _ in range(160 // every_hours):
        assert weather.poll().lost_checkpoint is None
        weather.pass_time(every_hours * HOUR)
    weather.update(3)
    assert weather.poll().lost_checkpoint is None
    assert weather.records_landed() == weather.ids(1, 2, 3)


def test_a_channel_that_never_had_an_event_gets_a_checkpoint_by_its_first_keepalive(weather: Stream) -> None:
    report = weather.poll()
    assert (report.count, report.has_answered, report.has_checkpoint) == (0, True, True)
    assert weather.checkpoint().resume.replay_id is not None


def test_a_channel_begun_without_a_checkpoint_longer_ago_than_events_are_kept_says_so(weather: Stream) -> None:
    weather.reader().land(TICK_NOW)  # begun at EARLIEST, and heard of nothing
    weather.update(1)
    weather.pass_time(100 * HOUR)
    assert "longer ago than events are kept" in (weather.poll().lost_checkpoint or "")


# -- half a transaction


def test_half_a_transaction_is_not_complete_however_often_a_short_silence_ends_a_reading(weather: Stream) -> None:
    weather.update(9)
    with weather.org.transaction() as both:
        both.update("Account", weather.accounts[0], {"Phone": "1"})
        both.update("Account", weather.accounts[1], {"Fax": "2"})
    weather.pause(after=2, seconds=9.5)
    first = weather.poll()
    assert (first.position, first.complete_position) == (2, 1)
    assert not first.is_complete
    second = weather.poll_until_settled()
    assert (second.position, second.complete_position) == (3, 3)


def test_ticks_complete_a_transaction_when_its_last_event_is_older_than_the_settling_time(weather: Stream) -> None:
    reader = weather.reader()
    weather.update(1)
    assert weather.tick(reader).complete_position == 0
    weather.pass_time(9)
    assert reader.land(TICK_NOW).complete_position == 0
    weather.pass_time(1.5)
    report = reader.land(TICK_NOW)
    assert (report.count, report.complete_position) == (0, 1)
    assert report.complete_through_ms == weather.clock() - 10_000


def test_a_transaction_is_complete_when_another_follows_or_the_org_says_that_nothing_does(weather: Stream) -> None:
    reader = weather.reader()
    weather.update(1)
    weather.update(2)
    assert weather.tick(reader).complete_position == 1
    assert weather.poll(timeouts=POLL_FOREVER).complete_position == 2  # by a keepalive


POLL_FOREVER = WATERMARK.__class__(first_answer=300.0, quiet=300.0, budget=600.0)


def test_a_stream_that_broke_is_not_quiet_but_begins_to_be_so_again(weather: Stream) -> None:
    reader = weather.reader()
    weather.update(1)
    weather.tick(reader)
    weather.pass_time(9)
    weather.server.faults.arm(Fault.STREAM_RESET)
    weather.wait_until_the_org_is_idle()
    for _ in range(3):
        weather.pass_time(2)
        assert weather.tick(reader).complete_position == 0
    weather.pass_time(11)
    assert weather.tick(reader).complete_position == 1
    assert weather.records_landed() == weather.ids(1)


# -- a start at LATEST


@pytest.fixture
def nearly_used_up(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, settings=OrgSettings(daily_event_deliveries=1_000)) as opened:
        for number in range(25):
            opened.update(*range(number + 1))
        opened.server.meter.delivered([10**9 + number for number in range(850)])
        yield opened


def test_a_start_at_latest_on_a_trickle_gets_a_checkpoint_by_its_first_event_and_pays_nothing_twice(
    nearly_used_up: Stream,
) -> None:
    weather, reader = nearly_used_up, nearly_used_up.reader()
    before = weather.delivered
    report = weather.tick(reader)
    assert (report.count, report.has_checkpoint) == (0, False)
    for number in range(10):
        weather.pass_time(20)
        weather.update(number)
        report = weather.tick(reader)
        assert (report.count, report.has_checkpoint) == (1, True)
    assert weather.records_landed() == weather.ids(*range(10))
    assert weather.delivered == before + 10


def test_a_start_at_latest_is_resumed_by_another_process_without_a_hole(nearly_used_up: Stream) -> None:
    weather, reader = nearly_used_up, nearly_used_up.reader()
    weather.tick(reader)
    weather.update(1)
    weather.tick(reader)
    weather.disown(reader)
    weather.update(2)
    weather.poll_until_settled()
    assert weather.records_landed() == weather.ids(1, 2)


# -- nothing is paid twice


def test_events_of_many_ticks_are_delivered_once(weather: Stream) -> None:
    reader = weather.reader()
    published = 0
    for number in range(60):
        for _ in range(number % 7):
            weather.update(number % 40)
            published += 1
        weather.pass_time(5)
        weather.tick(reader)
    assert weather.tick(reader).position == published
    assert weather.delivered == published
    assert weather.server.meter.more_than_once() == {}


def test_a_poll_takes_what_is_on_its_way_before_it_ends_and_each_poll_pays_its_first_replay_id_again(
    weather: Stream,
) -> None:
    for _ in range(3):
        for number in range(250):
            weather.update(number % 40)
        weather.poll()
        weather.wait_until_the_org_has_hung_up()  # what it sends meanwhile is charged once more
    assert len(weather.landed()) == 750
    assert weather.delivered == 752


def test_two_readers_of_one_channel_land_each_event_once(weather: Stream) -> None:
    first, second = weather.reader(), weather.reader()
    for number in range(12):
        weather.update(number)
        weather.siblings(20, 21, 22)
        weather.tick(first if number % 3 else second)
        weather.tick(second)
    weather.pass_time(20)
    weather.tick(first)
    assert [row["position"] for row in weather.landed()] == list(range(1, 49))
    assert weather.records_landed() == [each for number in range(12) for each in weather.ids(number, 20, 21, 22)]


def test_a_reader_whom_another_one_forestalls_at_every_event_comes_to_an_end(
    weather: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an org that never rests a reading ends with the first event that was made after it began: what another has
    landed of it is landed."""
    first, second = weather.reader(), weather.reader()
    weather.tick(second)
    weather.tick(first)
    events, seconds = itertools.count(), ResponseWaits.seconds

    def publish_and_wait(waits: ResponseWaits, *waited_for: Any) -> float:
        if waits is waits_of_second:
            weather.update(next(events) % 40)
            weather.wait_until_the_org_is_idle()
        return seconds(waits, *waited_for)

    waits_of_second = second._stream.waits
    monkeypatch.setattr(ResponseWaits, "seconds", publish_and_wait)
    second.on_events = lambda: weather.tick(first)
    report = second.land(TICK)
    assert (report.count, report.position) == (0, next(events))
    assert weather.records_landed() == weather.ids(*range(report.position))


def test_what_another_reader_has_landed_does_not_fail_the_one_that_closes(weather: Stream) -> None:
    first, second = weather.reader(), weather.reader()
    weather.tick(second)
    weather.update(1)
    weather.tick(first)
    weather.tick(second)
    weather.update(2)
    weather.tick(first)
    weather.update(3)
    weather.wait_until_the_org_is_idle()
    second.land(TICK_NOW)  # as one that reopened its stream and has not heard of it yet
    weather.wait_until_the_org_is_idle()
    second.land(TICK_NOW)
    assert weather.records_landed() == weather.ids(1, 2, 3)
    first.close()
    weather.tick(second)
    assert weather.records_landed() == weather.ids(1, 2, 3)


def test_a_reader_goes_on_from_where_another_process_moved_the_checkpoint_though_nothing_comes(weather: Stream) -> None:
    """Positions that were skipped change nothing about the stream; events that another process landed do."""
    reader = weather.reader()
    weather.update(1)
    weather.tick(reader)
    RawEvents.open(weather.warehouse).skip_to(CHANNEL, 50)
    weather.pass_time(LOOK_SECONDS)
    report = weather.tick(reader)
    assert (report.position, report.complete_position) == (50, 50)
    assert (weather.server.service.open_streams, weather.delivered) == (1, 1)
    weather.update(2)
    weather.poll_until_settled()
    weather.pass_time(LOOK_SECONDS)
    report = weather.tick(reader)
    assert (report.count, report.position) == (0, 51)
    assert [row["position"] for row in weather.landed()] == [1, 51]


def test_a_poll_waits_for_the_first_answer_of_a_call_that_was_begun_again_too(
    weather: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        weather.update(number % 40)
    charge = weather.server.meter.delivered

    def break_after_the_first_response(numbers: Sequence[int], platform_events: int = 0) -> None:
        if not weather.delivered:
            weather.server.faults.arm(Fault.LATE_ANSWER, seconds=30)
            weather.server.faults.arm(Fault.STREAM_RESET)
        charge(numbers, platform_events)

    monkeypatch.setattr(weather.server.meter, "delivered", break_after_the_first_response)
    assert weather.poll().count == 300
    assert weather.delivered == 301


# -- schemas


def test_a_schema_that_may_not_be_read_is_unknown_and_stops_nothing(weather: Stream) -> None:
    weather.update(1)
    weather.server.faults.arm(Fault.SCHEMA_NOT_PERMITTED)
    report = weather.poll_until_settled()
    assert (report.count, report.quarantined) == (1, 0)
    weather.update(2)
    assert weather.poll_until_settled().count == 1
    assert weather.records_landed() == weather.ids(1, 2)


def test_an_event_of_a_kind_that_nobody_knows_is_landed_once_though_it_comes_again(weather: Stream) -> None:
    weather.update(1)
    weather.server.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    weather.update(2)
    weather.poll_until_settled()
    weather.org.change_instance()
    weather.pass_time(700)  # it is asked for its instance every ten minutes
    report = weather.poll_until_settled()
    assert report.lost_checkpoint
    assert report.deliveries == 2
    assert weather.records_landed() == weather.ids(1, 2)


# -- days


def test_one_call_serves_longer_than_events_are_kept(weather: Stream) -> None:
    reader = weather.reader()
    published = 0
    for hour in range(80):
        for _ in range(hour % 4):
            weather.update(hour % 40)
            published += 1
        weather.pass_time(3_600)
        weather.tick(reader)
    weather.pass_time(60)
    weather.tick(reader)  # the last transaction is complete now
    assert weather.server.service.open_streams == 1
    assert len(weather.landed()) == weather.delivered == published
    assert weather.checkpoint().complete_position == published
