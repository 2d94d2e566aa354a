"""What a tick knows of an entity asks for a run only if that run finds something to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import ENTITY as WHOLE
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, QuietLife, quiet
from sfcdc_assets_tests.pipeline.stream import CHANNEL


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        yield life


def state_of(life: QuietLife) -> EntityState:
    (state,) = entity_states(life.warehouse, {ENTITY: CHANNEL}, life.clock())
    return state


def suspect(life: QuietLife, reason: Reason) -> int:
    """Make the entity suspect at a position after all that has landed."""
    events = RawEvents.open(life.warehouse)
    position = events.checkpoint(CHANNEL).position + 1
    events.skip_to(CHANNEL, position)
    ledger = Ledger.open_or_create(life.warehouse, ENTITY)
    ledger.note([NewSuspect(WHOLE, reason, position, "of the test")], CHANNEL, position, life.clock())
    return position


def test_events_that_wait_for_the_first_of_two_entries_about_an_entity_ask_for_no_run(life: QuietLife) -> None:
    """An object that is off its channel while the place in the stream is lost, for as long as nobody puts it back."""
    first, last = suspect(life, Reason.OFF_CHANNEL), suspect(life, Reason.LOST_CHECKPOINT)
    life.update(life.ids()[0], Name="delivered after both")
    life.clock.advance(60_000)
    life.catch_up()
    state = state_of(life)
    assert state.applied is not None
    assert state.applied < first < last < state.landed
    assert state.suspects_marked == last, "the rows are marked for both"
    assert not state.has_work


def test_a_second_entry_about_an_entity_asks_for_a_run_that_marks_its_rows(life: QuietLife) -> None:
    first = suspect(life, Reason.OFF_CHANNEL)
    life.catch_up()
    assert (state_of(life).suspects_marked, state_of(life).has_work) == (first, False)
    last = suspect(life, Reason.LOST_CHECKPOINT)
    assert state_of(life).has_work
    life.catch_up()
    assert (state_of(life).suspects_marked, state_of(life).has_work) == (last, False)
