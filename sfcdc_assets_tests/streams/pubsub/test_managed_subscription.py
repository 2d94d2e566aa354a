"""A managed event subscription as a channel: ours is the place that counts, the org's follows what is durable."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.pubsub_server import PubSubServer
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.serving.certificate import LOOPBACK_NAMES, server_certificate
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets.emulator.setup.managed_subscriptions import ManagedSubscription as OrgsOwn
from sfcdc_assets.settings.channel_kinds import managed_name
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.credentials import Credentials
from sfcdc_assets.streams.pubsub.errors import (
    ManagedSubscriptionActive,
    ManagedSubscriptionNotFound,
    ManagedSubscriptionStopped,
    ReplayIdRefused,
)
from sfcdc_assets.streams.pubsub.managed_subscription import ManagedSubscription
from sfcdc_assets.streams.pubsub.transport import PubSubTransport
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.eventually import eventually

NAME = "Accounts"
CHANNEL = f"managed:{NAME}"
TOPIC = "/data/AccountChangeEvent"


class Org:
    """A served org, and subscriptions of processes that come and go."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.org = EmulatedOrg(clock=self.clock, seed=6)
        self.bus = EventBus(self.org)
        self.org.populate({"Account": 1})
        self.account = str(next(self.org.records("Account"))["Id"])
        sessions = Sessions(self.org)
        token = sessions.issue(self.org.users.integration)
        certificate = server_certificate(folder)
        self.service = PubSubService(self.org, self.bus, sessions=sessions, hosts=LOOPBACK_NAMES)
        self.server = PubSubServer(self.service, certificate)
        self.server.start()
        self.org.managed_subscriptions.create(NAME, NAME, TOPIC, "LATEST", "LATEST", "RUN")
        self.connect = lambda: PubSubConnection(
            f"localhost:{self.server.port}",
            lambda refresh: Credentials(token, "https://localhost:1", self.org.organization_id),
            certificate.ca_file,
            sleep=lambda seconds: sleep(min(seconds, 0.2)),
        )
        self.opened: list[tuple[ManagedSubscription, PubSubConnection]] = []

    def change(self, *phones: str) -> None:
        for phone in phones:
            with self.org.transaction() as work:
                work.update("Account", self.account, {"Phone": phone})

    def subscribe(self, point: ResumePoint | None = None) -> ManagedSubscription:
        """A process that begins at what its warehouse knows."""
        connection = self.connect()
        transport = PubSubTransport(connection, self.topic_of)
        found = transport.subscribe(CHANNEL, ReplayStart.EARLIEST, point or ResumePoint())
        assert isinstance(found, ManagedSubscription)
        self.opened.append((found, connection))
        return found

    def topic_of(self, channel: str) -> str | None:
        found = self.org.managed_subscriptions.find(name=managed_name(channel) or "")
        return found.topic if found else None

    def read(self, subscription: ManagedSubscription, count: int) -> list[str]:
        """Event ids of so many events."""
        ids: list[str] = []
        while len(ids) < count:
            received = subscription.take(10)
            assert received is not None, f"{len(ids)} events of {count} came"
            ids += [event.event_id for event in received.events]
            subscription.top_up()
        return ids

    @property
    def published(self) -> list[str]:
        batch = self.bus.read(["Account"], after=0, max_events=99, max_bytes=10**7)
        return [event.event_id for event in batch.events]

    @property
    def theirs(self) -> OrgsOwn:
        found = self.org.managed_subscriptions.find(name=NAME)
        assert found is not None
        return found

    def wait_for_the_place_of(self, subscription: ManagedSubscription) -> None:
        """Until the org has the place that the subscription has reached."""
        wanted = subscription.resume_point.replay_id

        def has_it() -> bool:
            assert subscription.take(0.01) is None
            return self.theirs.committed == wanted

        eventually(has_it, "the org to have our place")

    def wait_until_nobody_reads(self) -> None:
        """Until the org knows that all calls are over."""
        eventually(lambda: not self.service.open_streams, "all calls to be over")

    def close(self) -> None:
        for subscription, connection in self.opened:
            subscription.close()
            connection.close()
        self.server.stop()
        self.org.close()


@pytest.fixture
def org(tmp_path: Path) -> Iterator[Org]:
    org = Org(tmp_path)
    yield org
    org.close()


def test_a_first_start_reads_from_our_preset_and_the_orgs_place_follows_what_has_landed(org: Org) -> None:
    org.change("1", "2", "3")
    first = org.subscribe()
    assert org.read(first, 3) == org.published
    assert org.theirs.committed is None, "nothing is durable yet"
    first.landed(first.resume_point)
    org.change("4")
    assert org.read(first, 1) == org.published[3:]
    assert org.theirs.committed is not None, "the next call goes on at the org's place"
    assert org.theirs.committed != first.resume_point.replay_id
    first.landed(first.resume_point)
    org.wait_for_the_place_of(first)


def test_a_start_after_an_end_reads_on_where_our_warehouse_is(org: Org) -> None:
    org.change("1", "2", "3")
    first = org.subscribe()
    org.read(first, 3)
    durable = first.resume_point
    first.close()
    for number in range(1, 4):  # a process that dies before it lands anything, again and again
        again = org.subscribe(durable)
        org.change(f"more {number}")
        assert org.read(again, number) == org.published[3:]
        again.close()
        assert org.theirs.committed == durable.replay_id


def test_a_call_that_breaks_before_its_events_are_durable_brings_no_event_twice(org: Org) -> None:
    org.change("1")
    subscription = org.subscribe()
    seen = org.read(subscription, 1)
    subscription.landed(subscription.resume_point)
    org.change("2", "3")
    seen += org.read(subscription, 2)
    org.service.faults.arm(Fault.STREAM_RESET)
    org.change("4", "5")
    seen += org.read(subscription, 2)
    assert seen == org.published
    subscription.landed(subscription.resume_point)
    org.change("6")
    assert org.read(subscription, 1) == org.published[5:]
    assert org.theirs.committed is not None


def test_a_place_of_the_orgs_that_is_ahead_of_ours_is_not_believed_and_said(
    org: Org, caplog: pytest.LogCaptureFixture
) -> None:
    org.change("1", "2")
    first = org.subscribe()
    org.read(first, 2)
    ours = first.resume_point
    org.change("3", "4", "5")
    org.org.managed_subscriptions.commit(NAME, org.bus.latest_replay_id())
    first.close()
    restored = org.subscribe(ours)
    with caplog.at_level(logging.WARNING):
        assert org.read(restored, 3) == org.published[2:]
    assert f"{CHANNEL}: the org does not take over this warehouse's place" in caplog.text
    assert "older than the one that was committed last" in caplog.text


def test_a_place_of_ours_that_expired_is_refused_like_any_other(org: Org) -> None:
    org.change("1", "2")
    first = org.subscribe()
    org.read(first, 2)
    first.close()
    org.bus.expire()
    org.change("3")
    with pytest.raises(ReplayIdRefused):
        org.subscribe(first.resume_point).take(10)


def test_a_place_of_the_orgs_that_expired_does_no_harm(org: Org) -> None:
    org.change("1")
    org.org.managed_subscriptions.commit(NAME, b"\x00" * 10)
    org.change("2")
    first = org.subscribe()
    org.read(first, 2)
    first.landed(first.resume_point)
    org.change("3")
    assert org.read(first, 1) == org.published[2:]
    assert org.theirs.committed != b"\x00" * 10


def test_what_is_wrong_with_the_subscription_is_said(org: Org) -> None:
    org.change("1", "2")
    first = org.subscribe()
    org.read(first, 2)
    point = first.resume_point
    first.close()
    known = org.theirs
    org.org.managed_subscriptions.update(known.id, NAME, "LATEST", "LATEST", "STOP")
    with pytest.raises(ManagedSubscriptionStopped, match="state to RUN"):
        org.subscribe(point).take(5)
    org.org.managed_subscriptions.delete(known.id)
    with pytest.raises(ManagedSubscriptionNotFound, match="no managed event subscription Accounts"):
        org.subscribe(point).take(5)
    org.org.managed_subscriptions.create(NAME, NAME, TOPIC, "LATEST", "LATEST", "RUN")
    org.change("3")
    assert org.read(org.subscribe(point), 1) == org.published[2:], "one of the same name goes on from ours"


def test_a_place_that_another_client_moved_between_two_calls_of_ours_is_noticed(
    org: Org, caplog: pytest.LogCaptureFixture
) -> None:
    org.change("1", "2")
    subscription = org.subscribe()
    seen = org.read(subscription, 2)
    subscription.landed(subscription.resume_point)
    org.change("3")
    seen += org.read(subscription, 1)
    subscription.landed(subscription.resume_point)
    org.wait_for_the_place_of(subscription)
    subscription.close()
    org.change("4", "5", "6")
    org.org.managed_subscriptions.commit(NAME, org.bus.latest_replay_id())
    assert seen + org.read(subscription, 3) == org.published
    assert "does not take over" in caplog.text


def test_a_subscription_that_another_call_reads_is_waited_for(org: Org) -> None:
    org.change("1", "2")
    first = org.subscribe()
    org.read(first, 2)
    first.landed(first.resume_point)
    first.take(0)
    other = org.subscribe(first.resume_point)
    with pytest.raises(ManagedSubscriptionActive, match="being read by another call"):
        other.take(0)
    first.close()
    org.wait_until_nobody_reads()
    org.change("3")
    assert org.read(other, 1)
