"""What the org has committed is on its bus a moment later, and the events of one transaction one after another.

A consistent cut may stand only where every transaction is there as a whole, and say only of what has landed that it was
committed before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import POLL, TICK, PollTimeouts, until_settled
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream
from sfcdc_assets_tests.simulated_clock import SimulatedClock
from sfcdc_assets_tests.trusted_authority import trust_only_the_org

LAG_MS, SPREAD_MS = 3_000, 5_000
KEEPALIVE = 2.0
"""Seconds: an empty response comes between the two halves of a transaction, which within 270 s it may."""


@pytest.fixture(params=[(LAG_MS, SPREAD_MS), (LAG_MS, 0), (0, SPREAD_MS)], ids=["both", "lag", "spread"])
def org(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stream]:
    lag, spread = request.param
    clock = SimulatedClock()
    with ExitStack() as stack:
        org = EmulatedOrg(clock=clock, seed=5, settings=OrgSettings(publishing_lag=lag, publishing_spread=spread))
        stack.callback(org.close)
        org.selected_entities = ["Account", "Contact"]
        org.populate(10)
        timing = StreamTiming(keepalive=KEEPALIVE)
        server = stack.enter_context(EmulatorServer(org, directory=tmp_path / "org", timing=timing))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in {**server.client_environment(), "SFCDC_WAREHOUSE": str(tmp_path / "warehouse")}.items():
            patch.setenv(name, value)
        trust_only_the_org(patch)
        stack.enter_context(clock.followed(server))
        connected = stack.enter_context(connect(load_settings()))
        opened = Stream(org, clock, server, connected, tmp_path / "warehouse")
        stack.callback(opened.close)
        yield opened


def commit(org: Stream, number: int) -> None:
    """One transaction over two objects."""
    with org.org.transaction() as work:
        work.update("Account", org.accounts[number % 5], {"Site": f"site {number}"})
        contacts = [str(record["Id"]) for record in org.org.records("Contact")]
        work.update("Contact", contacts[number % 5], {"Title": f"title {number}"})


def assert_true(org: Stream, report: LandingReport) -> None:
    """What a report says of what is complete, by the org's own log of its transactions."""
    landed = org.landed()
    complete = [row["transaction_key"] for row in landed if row["position"] <= report.complete_position]
    transactions = [each for each in org.org.transactions() if any(c.change_type == "UPDATE" for c in each.changes)]
    of = {each.transaction_key: len(each.changes) for each in transactions}
    halves = [key for key in dict.fromkeys(complete) if complete.count(key) != of[key]]
    assert not halves, "a transaction is complete of which events are still to come"
    before = {each.transaction_key for each in transactions if each.commit_timestamp < report.complete_through_ms}
    assert before <= set(complete), "something was committed before, and is not there"


def test_no_empty_response_completes_half_a_transaction_or_speaks_for_what_is_not_published(org: Stream) -> None:
    reader, dice = org.reader(), Random(7)
    reader.land(TICK)
    for number in range(12):
        commit(org, number)
        for _ in range(dice.randrange(1, 7)):
            org.pass_time(dice.choice([0.4, 1.0, 1.7, 3.0]))
            assert_true(org, org.tick(reader))
    org.pass_time(SETTLE + 15)
    report = org.tick(reader)
    assert_true(org, report)
    assert report.position == report.complete_position == 24
    assert report.complete_through_ms >= org.clock() - (SETTLE + KEEPALIVE) * 1000


@pytest.mark.parametrize("timeouts", [POLL, until_settled(SETTLE)], ids=["a reading", "until it has settled"])
def test_a_reading_that_ends_with_an_empty_response_says_only_what_is_so(org: Stream, timeouts: PollTimeouts) -> None:
    for number in range(4):
        commit(org, number)
        assert_true(org, org.poll(timeouts))
        org.pass_time(1.0)
    org.pass_time(30)
    report = org.poll_until_settled()
    assert_true(org, report)
    assert report.position == report.complete_position == 8


def test_a_reading_that_waits_for_all_that_was_committed_before_has_it(org: Stream) -> None:
    commit(org, 1)
    org.pass_time(2.0)
    asked = org.clock()
    reader = ChannelReader(org.warehouse, org.connected, CHANNEL, SETTLE)
    try:
        report = reader.land(replace(POLL, through_ms=asked))
    finally:
        reader.drop()
    assert report.complete_through_ms >= asked
    assert_true(org, report)
    assert report.complete_position == 2
