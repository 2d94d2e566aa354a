"""The clock of tests dates what a library dated by the machine's clock."""

from __future__ import annotations

import json
import time
from threading import Condition, Event

import pytest

from sfcdc_assets_tests import simulated_clock
from sfcdc_assets_tests.simulated_clock import SimulatedClock


class _Machine:
    now = 1_800_000_000_000


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> _Machine:
    found = _Machine()
    monkeypatch.setattr(simulated_clock, "_machine_ms", lambda: found.now)
    return found


def test_a_table_was_made_when_the_clock_stood_there(machine: _Machine) -> None:
    clock = SimulatedClock(runs=True)
    machine.now += 5
    clock.advance(60_000)
    machine.now += 5
    made, then = machine.now, clock()
    machine.now += 5
    clock.advance(60_000)
    assert clock.event_at(made) == then


def test_a_clock_that_goes_on_for_a_kept_one_dates_older_tables_as_that_did(machine: _Machine) -> None:
    """Else a table would be younger than the cut that names it, where the copy is opened soon."""
    kept = SimulatedClock(runs=True)
    made, then = machine.now, kept()
    machine.now += 1
    kept.advance(60_000)
    said = json.loads(json.dumps({"now": kept(), "offsets": kept.offsets}))
    machine.now += 1
    clock = SimulatedClock(**said, runs=True)
    assert clock.event_at(made) == then
    assert clock.event_at(machine.now) == clock() == said["now"]


def test_a_clock_that_runs_begins_at_the_machines_time() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= SimulatedClock(runs=True)() <= time.time_ns() // 1_000_000


def test_time_goes_on_for_a_thread_that_waits_though_another_has_ended() -> None:
    clock, ended = SimulatedClock(), Event()

    def waits() -> None:
        ended.wait(60)
        clock.sleep(1_000)

    waiting = clock.start_thread("waits", waits)
    clock.start_thread("ends", lambda: None).join(60)
    ended.set()
    condition, began, moment = Condition(), time.monotonic(), clock()
    with condition:
        clock.wait_for(condition, lambda: not waiting.is_alive(), 5_000)
    assert clock() - moment >= 1_000_000
    assert time.monotonic() - began < simulated_clock.BOUND_SECONDS / 2
