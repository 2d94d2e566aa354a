"""A channel that is read through a managed event subscription lands like any other; the org's place never leads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.change_event_landing import ChangeEventLanding
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.salesforce.managed_subscription import ManagedTopicOfOtherKind
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.pubsub.managed_subscription import ManagedSubscription
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream

NAME = "Changes"
MANAGED = f"managed:{NAME}"


@pytest.fixture
def org(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=3) as opened:
        opened.org.managed_subscriptions.create(NAME, NAME, CHANNEL, "LATEST", "LATEST", "RUN")
        yield opened


def land(org: Stream, times: int = 1) -> ChannelReader:
    """Ticks of a process of its own."""
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, MANAGED, SETTLE))
    for _ in range(times):
        org.tick(reader)
    return reader


def landed(org: Stream) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = RawEvents.open(org.warehouse).table.scan().to_pylist()
    return sorted(rows, key=lambda row: row["position"])


def theirs(org: Stream) -> bytes | None:
    found = org.org.managed_subscriptions.find(name=NAME)
    assert found is not None
    return found.committed


def wait_for_ours(org: Stream) -> bytes | None:
    """The org's place, once it is ours."""
    ours = RawEvents.open(org.warehouse).checkpoint(MANAGED).resume.replay_id
    eventually(lambda: theirs(org) == ours, "the org to have our place")
    return ours


def test_the_orgs_place_is_moved_after_what_lies_before_it_is_in_the_table(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.update(0)
    org.update(0)
    org.disown(land(org))
    org.update(1)
    reader = land(org)
    before = wait_for_ours(org)
    org.update(2)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(ChangeEventLanding, "commit", full)
        with pytest.raises(OSError, match="no space"):
            org.tick(reader)
    assert theirs(org) == before, "nothing was landed, so nothing is committed"
    org.disown(reader)
    last = land(org, 2)
    assert [row["position"] for row in landed(org)] == [1, 2, 3, 4]
    assert wait_for_ours(org) != before
    org.disown(last)


def test_a_process_that_dies_after_the_commit_of_the_table_and_before_that_of_the_org_lands_nothing_twice(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.update(0)
    org.disown(land(org))

    class KilledError(BaseException):
        """As by SIGKILL."""

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    for number in (1, 2):
        org.update(number)
        with monkeypatch.context() as broken:
            broken.setattr(ManagedSubscription, "landed", killed)
            with pytest.raises(KilledError):
                land(org)
    org.update(0, Site="last")
    land(org)
    rows = landed(org)
    assert [row["position"] for row in rows] == [1, 2, 3, 4]
    assert len({row["event_id"] for row in rows}) == 4


def test_a_place_of_ours_that_the_org_refuses_is_a_lost_checkpoint(org: Stream) -> None:
    org.update(0)
    org.update(0)
    org.disown(land(org))
    org.server.bus.expire()
    org.update(1)
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, MANAGED, SETTLE))
    report = org.tick(reader)
    assert "no longer accepted" in (report.lost_checkpoint or "")
    assert [row["position"] for row in landed(org)] == [1, 2, 4]


def test_its_entities_are_those_of_its_topic(org: Stream) -> None:
    assert org.connected.members(MANAGED) == org.connected.members(CHANNEL)
    org.org.managed_subscriptions.create("Orders", "Orders", "/event/Order_Event__e", "LATEST", "LATEST", "RUN")
    with pytest.raises(ManagedTopicOfOtherKind, match="Write managed:/event/Orders in SFCDC_CHANNELS"):
        org.connected.members("managed:Orders")
    assert org.connected.members("managed:Nothing") is None


def test_a_channel_whose_protocol_changes_by_its_prefix_goes_on_in_its_table(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.update(0)
    org.poll_until_settled()
    monkeypatch.setenv("SFCDC_CHANNELS", f"cometd:{CHANNEL}")
    settings = load_settings()
    assert settings.channels == (CHANNEL,)
    org.update(1)
    with connect(settings, sleep=lambda _: None) as connected:
        assert connected.transport.name == "cometd"
        reader = ChannelReader(org.warehouse, connected, CHANNEL, SETTLE)
        report = reader.land(replace(TICK, first_answer=10.0))
        reader.drop()
    assert "the channel was read over pubsub and is read over cometd now" in (report.lost_checkpoint or "")
    assert [row["position"] for row in landed(org)] == [1, 3]
    assert RawEvents.open(org.warehouse).checkpoint(CHANNEL).transport == "cometd"
