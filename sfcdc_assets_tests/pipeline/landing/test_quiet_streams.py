"""A stream that says nothing for long, read over a protocol that gives no replay id without an event: nothing that
comes after it is lost, and no silence that was heard is taken for a loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.lost_checkpoints import lost_checkpoints
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import NOW, PollTimeouts
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream

pytestmark = pytest.mark.slow

GENERIC = "/u/notifications/orders"
HELD = PollTimeouts(first_answer=150.0, quiet=0.3, budget=600.0)
"""Until a connect was held for its time and brought nothing."""
QUICK = PollTimeouts(first_answer=5.0, quiet=0.3, budget=20.0)
HOUR = 3_600.0


@pytest.fixture
def org(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    monkeypatch.setenv("SFCDC_TRANSPORT", getattr(request, "param", "cometd"))
    with stream(tmp_path, records=5) as opened:
        opened.server.cometd.topics.channels.create({"Name": GENERIC})
        yield opened


@pytest.fixture
def at_latest(org: Stream, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    monkeypatch.setenv("SFCDC_REPLAY_PRESET", "LATEST")
    with connect(load_settings()) as connected:
        org.connected = connected
        yield org


def push(org: Stream, text: str) -> None:
    channels = org.server.cometd.topics.channels
    (found,) = (each for each in channels.all() if each.name == GENERIC)
    channels.push(found.id, [{"payload": text}], [])
    org.server.bus.wake()


def texts(org: Stream) -> list[str]:
    return [row["payload"] for row in landed_rows(org.warehouse, GENERIC)]


def land(org: Stream, channel: str, timeouts: PollTimeouts = QUICK) -> LandingReport:
    """One reading by a process of its own."""
    reader = ChannelReader(org.warehouse, org.connected, channel, SETTLE)
    try:
        return reader.land(timeouts)
    finally:
        reader.drop()


@pytest.mark.parametrize("timeouts", [HELD, QUICK], ids=["after an answer", "before any answer"])
def test_a_channel_begun_at_latest_loses_nothing_that_is_published_while_its_process_restarts(
    at_latest: Stream, timeouts: PollTimeouts
) -> None:
    push(at_latest, "before the start")
    clock.sleep(60)
    assert land(at_latest, GENERIC, timeouts).count == 0
    clock.sleep(HOUR)
    push(at_latest, "while nobody read")
    report = land(at_latest, GENERIC, HELD)
    push(at_latest, "later")
    land(at_latest, GENERIC, HELD)
    assert (texts(at_latest), report.lost_checkpoint) == (["while nobody read", "later"], None)


def test_a_channel_begun_at_latest_loses_nothing_when_its_session_is_forgotten(at_latest: Stream) -> None:
    push(at_latest, "before the start")
    clock.sleep(60)
    reader = at_latest.adopt(ChannelReader(at_latest.warehouse, at_latest.connected, GENERIC, SETTLE))
    reader.land(HELD)
    at_latest.server.faults.arm(Fault.COMETD_RESET)
    push(at_latest, "lost to the session")
    for _ in range(3):
        reader.land(HELD)
    assert texts(at_latest) == ["lost to the session"]


def test_a_platform_event_whose_publisher_is_hours_behind_is_not_taken_for_one_from_before_the_start(
    at_latest: Stream,
) -> None:
    channel = "/event/Order_Event__e"
    land(at_latest, channel, QUICK)
    publisher, events = at_latest.server.publisher, at_latest.org.platform_events
    definition, codec = events.all["Order_Event__e"], events.codec("Order_Event__e")
    user = at_latest.org.users.integration
    values = {field.name: field.default for field in definition.custom_fields}
    for hours in (5, 24 * 365):
        created = at_latest.clock() - hours * 3_600_000
        payload = codec.payload(values, created_date=created, created_by=user)
        publisher.store([publisher.of_payload(definition, payload, codec.schema_id, f"id-{hours}", user)])
    assert land(at_latest, channel, HELD).count == 2


def test_a_quiet_channel_that_was_heard_of_is_never_lost_and_its_next_event_lands_once(org: Stream) -> None:
    org.update(0, Name="last change for a week")
    land(org, CHANNEL)
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, CHANNEL, SETTLE))
    for day in range(7):
        for _ in range(12):
            clock.sleep(2 * HOUR)
            assert reader.land(HELD).lost_checkpoint is None, f"day {day}"
        org.server.faults.arm(Fault.COMETD_UNKNOWN_CLIENT)
    org.update(1, Name="the next one")
    report = land(org, CHANNEL, HELD)
    assert (report.count, report.lost_checkpoint) == (1, None)
    assert org.records_landed() == org.ids(0, 1)
    assert [row["position"] for row in org.landed()] == [1, 2]
    assert lost_checkpoints(org.warehouse, CHANNEL) == []


@pytest.mark.parametrize("org", ["cometd", "pubsub"], indirect=True)
@pytest.mark.parametrize("events", [1, 2])
def test_a_quiet_channel_that_a_sync_reads_each_hour_is_never_lost_however_few_events_it_ever_had(
    org: Stream, events: int
) -> None:
    """The last event comes again each time, within a moment, and is not waited behind but now and then."""
    for number in range(events):
        org.update(number)
    for hour in range(80):
        assert land(org, CHANNEL, NOW).lost_checkpoint is None, f"hour {hour}"
        clock.sleep(HOUR)
    assert org.delivered <= 30, "what has come again often has a place behind it"
    org.update(3, Name="the next one")
    report = land(org, CHANNEL, NOW)
    assert (report.count, report.lost_checkpoint) == (1, None)
    assert [row["position"] for row in org.landed()] == list(range(1, events + 2))


def test_a_channel_that_never_had_an_event_is_not_lost_while_it_is_heard_of(org: Stream) -> None:
    for _ in range(20):
        assert land(org, CHANNEL, HELD).lost_checkpoint is None
        clock.sleep(6 * HOUR)
    org.update(1)
    assert land(org, CHANNEL, HELD).count == 1
    assert lost_checkpoints(org.warehouse, CHANNEL) == []


def test_a_channel_that_nobody_heard_of_for_longer_than_events_are_kept_is_lost_loudly(org: Stream) -> None:
    org.update(0)
    land(org, CHANNEL)
    land(org, CHANNEL, replace(HELD, quiet=150.0))
    clock.sleep(80 * HOUR)
    assert "you provided was invalid" in (land(org, CHANNEL, HELD).lost_checkpoint or "")


def test_a_replay_id_that_is_refused_while_its_event_is_kept_is_lost_loudly(org: Stream) -> None:
    org.update(0)
    land(org, CHANNEL)
    land(org, CHANNEL, replace(HELD, quiet=150.0))
    org.server.bus.expire()
    assert "you provided was invalid" in (land(org, CHANNEL, HELD).lost_checkpoint or "")


def test_what_is_noted_of_a_quiet_channel_is_one_commit_an_hour(org: Stream) -> None:
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, CHANNEL, SETTLE))
    reader.land(HELD)
    before = RawEvents.open(org.warehouse).table.version
    for _ in range(36):
        clock.sleep(HOUR / 6)
        reader.land(HELD)
    assert 0 < RawEvents.open(org.warehouse).table.version - before <= 6
