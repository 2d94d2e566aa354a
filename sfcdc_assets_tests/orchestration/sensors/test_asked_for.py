"""How often work was asked for in vain."""

from __future__ import annotations

from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.orchestration.sensors.asked_for import AskedFor, applied, copied

NUMBERS = (
    *("landed", "complete", "snapshot_complete", "snapshot_position", "snapshot_applied", "read_back_taken"),
    *("read_back_applied", "suspects_open", "suspect_records", "suspects_due", "suspects_marked"),
)


def state(entity: str, **known: int) -> EntityState:
    others = {"channel_changed": False, "entity_suspect": None, "blocked_from": None, "blocked_last": None}
    values = {"channel": "/data/ChangeEvents", "applied": 0, **dict.fromkeys(NUMBERS, 0), **others, **known}
    return EntityState(entity=entity, **values)  # type: ignore[arg-type]


def test_each_time_that_an_entity_has_come_no_further_counts_also_with_new_events_of_its_own() -> None:
    asked_for = AskedFor(applied)
    found = []
    for number in range(4):
        work = [state("Account", landed=number, complete=number)]
        found.append(asked_for.times(work))
        asked_for.note(work)
    assert found == [1, 1, 2, 3]


def test_what_is_new_or_has_come_further_counts_once() -> None:
    asked_for = AskedFor(applied)
    fails, works = state("Account", applied=1), state("Contact", applied=1)
    for _ in range(3):
        asked_for.note([fails, works])
    assert asked_for.times([fails]) == 3
    assert asked_for.times([fails, state("Contact", applied=2)]) == 1
    assert asked_for.times([fails, state("Lead")]) == 1


def test_a_copy_that_fails_counts_however_far_events_are_applied_meanwhile() -> None:
    asked_for = AskedFor(copied)
    for number in range(3):
        asked_for.note([state("Account", applied=number, snapshot_complete=1)])
    assert asked_for.times([state("Account", applied=9, snapshot_complete=1)]) == 3
    assert asked_for.times([state("Account", applied=9, snapshot_complete=2)]) == 1
