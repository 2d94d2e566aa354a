"""Random histories of an org, and the oracle's memory of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.setup.silent_changes import Records
from sfcdc_assets_tests.pipeline.simulation.org_history import HistoryMix, HistoryStep, OrgHistory

BUSY = HistoryMix(
    traffic=10,
    convert_lead=3,
    add_field=3,
    drop_field=2,
    rename_field=2,
    retype_field=4,
    new_object=1,
    recase_field=1,
)


def new_org(seed: int, records: int = 12) -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(), seed=seed)
    org.populate(records)
    return org


def present(org: EmulatedOrg) -> dict[str, Records]:
    return {
        entity: {
            str(record["Id"]): {field.name: record[field.name] for field in definition.stored_fields}
            for record in org.records(entity)
        }
        for entity, definition in org.definitions.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_oracle_remembers_every_moment_of_a_life(seed: int) -> None:
    print(f"seed {seed}")
    org, dice = new_org(seed), Random(seed)
    assert isinstance(org.clock, ManualClock)
    states = {0: present(org)}
    last = 0
    for event in OrgHistory(org, seed, BUSY).run(90):
        org.clock.advance(dice.randrange(3_000))
        if event.commit_number != last and event.kind in ("traffic", "convert_lead") and dice.random() < 0.3:
            states[event.commit_number] = present(org)
        last = event.commit_number
    for commit_number, state in states.items():
        assert org.state_at(commit_number) == state, commit_number


def test_everything_happens_in_a_long_life_and_events_follow_it() -> None:
    org = new_org(5)
    bus = EventBus(org)
    history = OrgHistory(org, 5, BUSY, bus=bus, holes=0.05)
    kinds = Counter(event.kind for event in history.run(250))
    assert kinds.keys() == set(BUSY.__dataclass_fields__)
    schemas = {
        event.schema_id for event in bus.read(org.definitions, after=0, max_events=10**6, max_bytes=10**9).events
    }
    assert len(schemas) > 20


def test_the_same_seed_gives_the_same_life() -> None:
    def history(seed: int) -> list[HistoryStep]:
        return list(OrgHistory(new_org(1), seed, BUSY).run(60))

    assert history(3) == history(3)
    assert history(3) != history(4)


def test_what_has_no_weight_does_not_happen() -> None:
    org = new_org(2)
    nothing = HistoryMix(**dict.fromkeys(HistoryMix.__dataclass_fields__, 0.0) | {"traffic": 1.0})
    definitions = org.definitions
    assert {event.kind for event in OrgHistory(org, 1, nothing).run(40)} == {"traffic"}
    assert org.definitions is definitions
