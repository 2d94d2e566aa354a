"""Seeded traffic: deterministic, of every kind, on any object."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, object_definition
from sfcdc_assets.emulator.errors import TrafficRefusedError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.traffic.traffic import LOAD_MIX, TrafficGenerator, TrafficMix
from sfcdc_assets.emulator.traffic.traffic_records import TrafficRecords
from sfcdc_assets_tests.eventually import BOUND_SECONDS

NOTHING = dict.fromkeys(("create", "update", "bulk_update", "delete", "undelete", "geocode", "several_objects"), 0.0)


def new_org(records: int = 30) -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(), seed=1)
    org.populate(records)
    return org


def made(org: EmulatedOrg, count: int, seed: int = 7, **mix: float) -> list[Transaction]:
    print(f"traffic seed {seed}")
    generator = TrafficGenerator(org, seed, TrafficMix(**(NOTHING | mix)) if mix else None)
    return [generator.step() for _ in range(count)]


def test_the_same_seed_makes_the_same_transactions() -> None:
    first, second, other = new_org(), new_org(), new_org()
    transactions = made(first, 150)
    assert made(second, 150) == transactions
    assert made(other, 150, seed=8) != transactions


def test_every_kind_of_change_happens_on_every_object() -> None:
    org = new_org()
    seen = Counter((change.entity, change.change_type) for t in made(org, 600) for change in t.changes)
    for entity, definition in org.definitions.items():
        assert seen[entity, "UPDATE"]
        if definition.deletable:
            assert seen[entity, "CREATE"]
            assert seen[entity, "DELETE"]
    assert sum(count for (_, kind), count in seen.items() if kind == "UNDELETE") > 3


def test_updates_null_fields_and_change_components() -> None:
    org = new_org()
    changes = [change for t in made(org, 200, update=1) for change in t.changes]
    nulled = [name for c in changes for name in c.changed_fields if c.after is not None and c.after[name] is None]
    compound = [name for c in changes for name in c.changed_fields if name.endswith(("City", "FirstName", "Street"))]
    assert nulled
    assert compound


def test_a_bulk_update_gives_events_of_several_records() -> None:
    org = new_org()
    bus = EventBus(org)
    transactions = made(org, 30, bulk_update=1)
    assert max(len(transaction.changes) for transaction in transactions) > 3
    assert bus.last_number < sum(len(transaction.changes) for transaction in transactions)


def test_a_load_changes_the_same_fields_of_many_records_each_to_a_value_of_its_own() -> None:
    org = new_org(80)
    bus = EventBus(org)
    generator = TrafficGenerator(org, 7, LOAD_MIX, bus=bus)
    loads = [generator.step() for _ in range(6)]
    for load in loads:
        assert len({change.entity for change in load.changes}) == 1
        assert {change.change_type for change in load.changes} == {"UPDATE"}
    assert max(len(load.changes) for load in loads) > 30
    assert bus.last_number > sum(len(load.changes) for load in loads) / 2, "most are events of their own"
    assert generator.records.changes == Counter({"UPDATE": sum(len(load.changes) for load in loads)})


def test_the_org_itself_geocodes_without_touching_the_modification_date() -> None:
    org = new_org()
    for transaction in made(org, 10, geocode=1):
        assert transaction.commit_user == org.users.automated_process
        assert transaction.change_origin == ""
        for change in transaction.changes:
            assert all(name.endswith(("Latitude", "Longitude")) for name in change.changed_fields)


def test_some_transactions_span_several_objects() -> None:
    transactions = made(new_org(), 40, several_objects=1)
    assert max(len({change.entity for change in transaction.changes}) for transaction in transactions) > 1


def test_recent_records_are_chosen_more_often() -> None:
    org = new_org(400)
    records = TrafficRecords(org)
    ids = [str(record["Id"]) for record in org.records("Account")]
    dice = Random(1)
    chosen = [records.choose("Account", dice)[0] for _ in range(400)]
    assert sum(record_id in ids[-50:] for record_id in chosen) > 150


def test_changes_made_by_others_are_followed() -> None:
    org = new_org(0)
    records = TrafficRecords(org)
    assert records.choose("Account", Random(1)) == []
    with org.transaction() as work:
        account = work.create("Account", {"Name": "a"})
    assert records.choose("Account", Random(1)) == [account]
    with org.transaction() as work:
        work.delete("Account", account)
    assert records.choose("Account", Random(1)) == []
    assert records.choose("Account", Random(1), deleted=True) == [account]


def test_running_until_a_number_of_events_publishes_them() -> None:
    org = new_org()
    bus = EventBus(org)
    TrafficGenerator(org, 3, bus=bus).run(events=200)
    assert 200 <= bus.last_number < 260


def test_running_until_events_without_a_bus_is_refused() -> None:
    with pytest.raises(ValueError, match="bus"):
        TrafficGenerator(new_org(0)).run(events=1)


def test_an_object_a_user_added_gets_traffic_too() -> None:
    added = object_definition(
        {
            "name": "Parcel__c",
            "label": "Parcel",
            "key_prefix": "a0p",
            "fields": [
                {"Name": {"type": "autonumber", "format": "P-{0000}"}},
                {"Code__c": {"type": "string", "length": 12, "required": True, "unique": True}},
                {"Seen__c": {"type": "time"}},
                {"Owner_Account__c": {"type": "reference", "to": "Account"}},
                {"Where__c": {"type": "location"}},
            ],
        },
        "test",
    )
    org = EmulatedOrg(clock=ManualClock(), objects=[*built_in_definitions(), added])
    changes = [change for t in made(org, 250) for change in t.changes if change.entity == "Parcel__c"]
    assert {change.change_type for change in changes} >= {"CREATE", "UPDATE"}


def test_an_org_in_which_nothing_can_be_changed_is_an_error_and_no_endless_loop() -> None:
    with pytest.raises(TrafficRefusedError, match="100"):
        made(new_org(0), 1, undelete=1)


def test_the_thread_makes_transactions_until_it_is_stopped() -> None:
    org = new_org()
    bus = EventBus(org)
    generator = TrafficGenerator(org, 3)
    generator.start(rate=200)
    with bus.changed:
        assert bus.changed.wait_for(lambda: bus.last_number >= 5, timeout=BOUND_SECONDS)
    generator.stop()
    made_by_then = generator.transactions
    assert made_by_then >= 3
    assert len(list(org.transactions())) == made_by_then


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_that_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        TrafficGenerator(new_org(0)).start(rate)


def test_the_transaction_log_holds_what_traffic_made() -> None:
    org = new_org()
    before = org.last_commit_number
    transactions = made(org, 100)
    assert list(org.transactions(after=before)) == transactions
