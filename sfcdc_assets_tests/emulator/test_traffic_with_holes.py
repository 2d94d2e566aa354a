"""Traffic of the full mix, with holes: deterministic, all kinds, and the truth stays what the log says."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator, TrafficMix
from sfcdc_assets.emulator.traffic.traffic_holes import HoleMix

NOTHING = TrafficMix(**{field.name: 0.0 for field in fields(TrafficMix)})
ONLY = {field.name: 0.0 for field in fields(TrafficMix)}


def new_org(records: int = 30) -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(), seed=1)
    org.populate(records)
    return org


def test_a_third_of_the_large_texts_of_a_new_org_are_long_and_have_many_lines() -> None:
    org = new_org(300)
    texts = [str(record["Description"]) for record in org.records("Account") if record["Description"]]
    long = [text for text in texts if len(text) > 1000]
    assert 0.2 < len(long) / len(texts) < 0.5
    assert all(len(text.splitlines()) >= 15 for text in long)
    assert all(text == text.strip() for text in texts)


def test_the_full_mix_makes_every_kind_and_many_differences() -> None:
    org = new_org()
    bus = EventBus(org)
    generator = TrafficGenerator(org, 7, FULL_MIX, bus=bus)
    transactions = [generator.step() for _ in range(400)]
    changes = [change for transaction in transactions for change in transaction.changes]
    assert sum(change.master_record_id is not None for change in changes) > 5
    assert (
        sum(
            b"\n+++ " in event.payload
            for event in bus.read(org.definitions, after=0, max_events=9999, max_bytes=10**9).events
        )
        > 25
    )
    gone = [c for c in changes if c.change_type == "DELETE" and org.record(c.entity, c.record_id) is None]
    assert len(gone) > 3


def test_an_emptied_bin_makes_no_transaction_and_purges_records() -> None:
    org = new_org()
    generator = TrafficGenerator(org, 7, TrafficMix(**{**ONLY, "delete": 1, "empty_bin": 1}))
    transactions = [generator.step() for _ in range(60)]
    assert {change.change_type for transaction in transactions for change in transaction.changes} <= {
        "DELETE",
        "UPDATE",
    }
    with org.database.lock:
        assert sum(len(org.store.purged_ids(definition)) for definition in org.definitions.values()) > 10


def test_the_same_seed_makes_the_same_holes_and_events() -> None:
    payloads = []
    for _ in range(2):
        org = new_org()
        bus = EventBus(org)
        generator = TrafficGenerator(org, 7, FULL_MIX, bus=bus, holes=0.2)
        generator.run(transactions=150)
        events = bus.read(org.definitions, after=0, max_events=9999, max_bytes=10**9).events
        payloads.append([(event.event_id, event.counter, event.payload) for event in events])
    assert payloads[0] == payloads[1]


def test_holes_of_every_kind_are_made_at_about_their_share() -> None:
    org = new_org()
    bus = EventBus(org)
    mix = HoleMix(**{field.name: 1.0 for field in fields(HoleMix)})
    generator = TrafficGenerator(org, 9, bus=bus, holes=0.5, hole_mix=mix)
    generator.run(transactions=300)
    assert set(generator.holes.made) == {field.name for field in fields(HoleMix)}
    assert 110 < sum(generator.holes.made.values()) < 190
    assert Counter(mix for mix in generator.holes.made)


def test_losses_are_off_unless_asked_for() -> None:
    assert HoleMix().lost_event == 0


def test_holes_do_not_change_what_happens_to_the_records() -> None:
    mix = HoleMix(wildcard=0)
    plain, holed = new_org(), new_org()
    first = TrafficGenerator(plain, 7, FULL_MIX)
    second = TrafficGenerator(holed, 7, FULL_MIX, bus=EventBus(holed), holes=0.3, hole_mix=mix)
    assert [first.step() for _ in range(80)] == [second.step() for _ in range(80)]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    org = new_org(0)
    with pytest.raises(ValueError, match="share"):
        TrafficGenerator(org, bus=EventBus(org), holes=share)


def test_holes_need_the_bus() -> None:
    with pytest.raises(ValueError, match="bus"):
        TrafficGenerator(new_org(0), holes=0.1)
