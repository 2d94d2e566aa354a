"""Traffic in an org with objects of each kind, late commits and emptied bins: the oracle can still go back to any
moment, and histories and shares fit their records."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from sfcdc_assets.emulator.definitions.object_access import CompanionKind
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets.emulator.setup.silent_changes import Records
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator

STEPS = 160


def now(org: EmulatedOrg) -> dict[str, Records]:
    return {
        name: {
            str(row["Id"]): row
            for row in org.store.records(definition, include_deleted=False, fields=definition.stored_fields)
        }
        for name, definition in org.definitions.items()
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_the_oracle_goes_back_to_any_moment_and_companions_fit(seed: int) -> None:
    clock = ManualClock()
    settings = OrgSettings(longest_transaction=300_000, purged_shown=DAY)
    org = EmulatedOrg(clock=clock, seed=seed, objects=whole_org(), settings=settings)
    org.populate(12)
    bus = EventBus(org)
    traffic = TrafficGenerator(org, seed, FULL_MIX)
    dice = Random(seed)
    seen: list[tuple[int, int, dict[str, Records]]] = []
    for step in range(STEPS):
        clock.advance(dice.randrange(1_000, 6_000_000))
        if step % 25 == 10:
            held = org.long_transactions.begin(seconds=1_800)
            held.create("Account", {"Name": f"held {step}"})
            with suppress(RecordError):  # an earlier one may hold the record
                held.update("Account", str(next(org.records("Account"))["Id"]), {"Name": "held"})
        if step == STEPS // 2:
            org.stamp_all("Case")
        traffic.step()
        if step % 40 == 0:
            seen.append((clock(), org.last_commit_number, now(org)))
    for moment, number, records in seen:
        assert org.state_at(number) == records
        for entity in ("Account", "Case", "AccountHistory", "AccountShare"):
            assert org.seen_at(entity, moment) == records[entity]
    found = now(org)
    for definition in org.definitions.values():
        reported = definition.companion
        if reported is None:
            continue
        parents = found[reported.parent]
        assert {row[reported.parent_field] for row in found[definition.name].values()} <= parents.keys()
        if reported.kind is CompanionKind.SHARE:
            owners = [(row[reported.parent_field], row["UserOrGroupId"]) for row in found[definition.name].values()]
            assert sorted(owners) == sorted((record_id, row["OwnerId"]) for record_id, row in parents.items())
    events = bus.read(org.definitions, after=0, max_events=10**6, max_bytes=10**9).events
    assert {event.entity for event in events} <= set(org.selected_entities)
