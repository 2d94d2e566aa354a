"""Replay ids that are worthless at once: events purged, the org moved, the sandbox refreshed."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.events.replay_id import replay_counter
from sfcdc_assets.emulator.org.ids import id_suffix
from sfcdc_assets.streams.pubsub.proto.pubsub_api_pb2 import ReplayPreset
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg

CUSTOM, EARLIEST = ReplayPreset.CUSTOM, ReplayPreset.EARLIEST


def last_position(watched: WatchedOrg, count: int) -> list[bytes]:
    for _ in range(count):
        watched.create()
    return [*(event.replay_id for event in watched.stored()), watched.bus.latest_replay_id()]


def assert_all_refused(watched: WatchedOrg, ids: list[bytes]) -> None:
    for one in ids:
        with pytest.raises(ReplayIdCorruptedError):
            watched.bus.start(CUSTOM, one)


def test_purged_events_are_gone_and_every_older_id_is_refused() -> None:
    watched = WatchedOrg()
    old = last_position(watched, 3)
    watched.bus.expire()
    assert_all_refused(watched, old)
    new = watched.create()
    assert replay_counter(watched.bus.latest_replay_id()) > replay_counter(old[-1])
    place = watched.bus.start(EARLIEST)
    (event,) = watched.bus.read({"Account"}, after=place, max_events=9, max_bytes=10**9).events
    assert watched.decoded(event).header["recordIds"] == [new]


def test_the_newest_id_after_a_purge_is_good() -> None:
    watched = WatchedOrg()
    last_position(watched, 1)
    watched.bus.expire()
    latest = watched.bus.latest_replay_id()
    record_id = watched.create()
    place = watched.bus.start(CUSTOM, latest)
    (event,) = watched.bus.read({"Account"}, after=place, max_events=9, max_bytes=10**9).events
    assert watched.decoded(event).header["recordIds"] == [record_id]


def test_after_a_move_ids_go_down_and_the_old_ones_never_become_valid_again() -> None:
    watched = WatchedOrg()
    old: list[bytes] = []
    for _ in range(3):
        old += last_position(watched, 40)
        organization = watched.org.organization_id
        watched.bus.move()
        assert watched.org.organization_id == organization
        assert_all_refused(watched, old)
        new = last_position(watched, 1)
        assert max(map(replay_counter, new)) < min(map(replay_counter, old))
        assert watched.bus.start(CUSTOM, new[0]) > 0
        old += new


def test_ids_that_grow_up_to_the_old_ones_jump_over_them() -> None:
    watched = WatchedOrg()
    old = last_position(watched, 2)
    watched.bus.move()
    watched.org.database.execute("UPDATE _bus_state SET counter = ?", (replay_counter(old[0]) - 1,))
    new = last_position(watched, 5)
    assert min(map(replay_counter, new)) > max(map(replay_counter, old))
    assert_all_refused(watched, old)


def test_a_refreshed_sandbox_has_another_organization_id_for_good() -> None:
    watched = WatchedOrg()
    ids = {watched.org.organization_id}
    for _ in range(3):
        watched.bus.move(new_organization_id=True)
        ids.add(watched.org.organization_id)
    assert len(ids) == 4
    assert all(one.startswith("00D") and id_suffix(one[:15]) == one[15:] for one in ids)
