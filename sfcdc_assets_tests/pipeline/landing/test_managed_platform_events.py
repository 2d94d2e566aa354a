"""Platform events that are read through a managed event subscription: the table decides, the org's place follows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import monotonic, sleep

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.doctor.streams import reachable
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.event_landing import EventLanding
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.orchestration.assets.event_tables import build_event_tables
from sfcdc_assets.salesforce.managed_subscription import ManagedTopicOfOtherKind
from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.pubsub.managed_subscription import ManagedFetchStream
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream

EVENT = "Order_Event__e"
TOPIC = f"/event/{EVENT}"
NAME = "Orders"
MANAGED = f"managed:/event/{NAME}"
QUICK = PollTimeouts(first_answer=5.0, quiet=0.1, budget=20.0)


@pytest.fixture
def org(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=1) as opened:
        opened.org.managed_subscriptions.create(NAME, NAME, TOPIC, "LATEST", "LATEST", "RUN")
        yield opened


def publish(org: Stream, *numbers: int) -> None:
    for number in numbers:
        org.server.publisher.publish(EVENT, {"Order_Number__c": str(number)})


def reader(org: Stream, channel: str = MANAGED) -> ChannelReader:
    """Of a process of its own."""
    return org.adopt(ChannelReader(org.warehouse, org.connected, channel, SETTLE))


def land(reader: ChannelReader, count: int) -> LandingReport:
    """Ticks until so many events have landed."""
    landed, deadline = 0, monotonic() + BOUND_SECONDS
    while True:
        report = reader.land(QUICK)
        landed += report.count
        if landed >= count:
            return report
        assert monotonic() < deadline, f"{landed} of {count} events landed"


def numbers(org: Stream) -> list[int]:
    return [int(row["Order_Number__c"]) for row in landed_rows(org.warehouse, MANAGED)]


def ours(org: Stream) -> bytes | None:
    table = EventTable.open(org.warehouse, MANAGED)
    return table.checkpoint(MANAGED).resume.replay_id if table else None


def theirs(org: Stream) -> bytes | None:
    found = org.org.managed_subscriptions.find(name=NAME)
    assert found is not None
    return found.committed


def wait_for_ours(org: Stream) -> bytes | None:
    deadline = monotonic() + BOUND_SECONDS
    while theirs(org) != ours(org):
        assert monotonic() < deadline, "the org has another place"
        sleep(0.001)
    return ours(org)


def test_events_land_once_and_the_orgs_place_is_that_of_the_tables_last_commit(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(org, 1, 2)
    first = reader(org)
    land(first, 2)
    assert theirs(org) is None, "read with Subscribe: the org has no place of ours yet"
    publish(org, 3)
    land(first, 1)
    assert isinstance(first._stream.subscription._call, ManagedFetchStream)  # type: ignore[union-attr]
    before = wait_for_ours(org)
    publish(org, 4)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(EventLanding, "commit", full)
        with pytest.raises(OSError, match="no space"):
            land(first, 1)
    assert theirs(org) == before, "nothing was landed, so nothing is committed"
    org.disown(first)
    publish(org, 5)
    land(reader(org), 2)
    assert numbers(org) == [1, 2, 3, 4, 5]
    assert wait_for_ours(org) != before


def test_a_call_that_breaks_with_events_on_the_way_lands_each_once_and_goes_back_to_the_orgs_place(org: Stream) -> None:
    publish(org, 1)
    first = reader(org)
    land(first, 1)
    publish(org, 2)
    land(first, 1)
    org.server.faults.arm(Fault.STREAM_RESET)
    publish(org, 3, 4)
    land(first, 2)
    publish(org, 5)
    land(first, 1)
    assert numbers(org) == [1, 2, 3, 4, 5]
    assert isinstance(first._stream.subscription._call, ManagedFetchStream)  # type: ignore[union-attr]
    wait_for_ours(org)


def test_whatever_breaks_the_orgs_place_is_one_that_our_table_has_had(org: Stream) -> None:
    dice, published, current = Random(3), 0, reader(org)
    durable: set[bytes | None] = {None}
    for _ in range(25):
        step = dice.choice(["publish", "publish", "land", "land", "kill", "reset"])
        if step == "publish":
            publish(org, *range(published + 1, published + 4))
            published += 3
        elif step == "land":
            current.land(QUICK)
            durable.add(ours(org))
        elif step == "kill":
            org.disown(current)
            current = reader(org)
        else:
            org.server.faults.arm(Fault.STREAM_RESET, after=dice.randrange(3))
        assert theirs(org) in durable
    land(current, published - len(numbers(org)))
    durable.add(ours(org))
    assert numbers(org) == [*range(1, published + 1)]
    assert theirs(org) in durable


def test_a_place_of_the_orgs_that_is_ahead_loses_no_event(org: Stream) -> None:
    publish(org, 1)
    first = reader(org)
    land(first, 1)
    org.disown(first)
    publish(org, 2, 3)
    org.org.managed_subscriptions.commit(NAME, org.server.bus.latest_replay_id())
    land(reader(org), 2)
    assert numbers(org) == [1, 2, 3]


def test_a_place_that_expired_is_lost_and_the_earliest_event_is_next(org: Stream) -> None:
    publish(org, 1)
    first = reader(org)
    land(first, 1)
    org.disown(first)
    org.server.bus.expire()
    publish(org, 2)
    report = land(reader(org), 1)
    assert "no longer accepted" in (report.lost_checkpoint or "")
    assert numbers(org) == [1, 2]


def test_a_person_materializes_the_channel_and_the_commands_show_it(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", MANAGED)
    publish(org, 1)
    (partition,) = (folder_of(each) for each in load_settings().event_channels)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(ASSETS.folders(ChannelKind.PLATFORM_EVENT).name or "", [partition])
        done = dg.materialize(
            build_event_tables(ASSETS, [MANAGED]),
            partition_key=partition,
            instance=instance,
            run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
        )
    assert done.success
    assert numbers(org) == [1]
    (number,) = sfcdc("explain", MANAGED, "@1", "Order_Number__c", "--json").stdout.splitlines()
    assert (json.loads(number)["value"], json.loads(number)["run_id"]) == ("1", done.run_id)
    (status,) = json.loads(sfcdc("status", "--json").stdout)["event_tables"]
    assert (status["channel"], status["table"]) == (MANAGED, "platform_events/managed_Orders")
    (finding,) = reachable(load_settings(), org.connected)
    assert "lets the user subscribe" in finding.found


def test_a_subscription_of_change_events_is_refused_with_the_name_it_should_have(org: Stream) -> None:
    org.org.managed_subscriptions.create("Changes", "Changes", CHANNEL, "LATEST", "LATEST", "RUN")
    with pytest.raises(ManagedTopicOfOtherKind, match="Write managed:Changes in SFCDC_CHANNELS"):
        land(reader(org, "managed:/event/Changes"), 1)
    assert EventTable.open(org.warehouse, "managed:/event/Changes") is None
