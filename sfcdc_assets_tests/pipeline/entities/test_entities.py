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
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.stream import CHANNEL


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        yield pipeline


def state_of(pipeline: QuietPipeline) -> EntityState:
    (state,) = entity_states(pipeline.warehouse, {ENTITY: CHANNEL}, pipeline.clock())
    return state


def suspect(pipeline: QuietPipeline, reason: Reason) -> int:
    """Make the entity suspect at a position after all that has landed."""
    events = RawEvents.open(pipeline.warehouse)
    position = events.checkpoint(CHANNEL).position + 1
    events.skip_to(CHANNEL, position)
    ledger = Ledger.open_or_create(pipeline.warehouse, ENTITY)
    ledger.note([NewSuspect(WHOLE, reason, position, "of the test")], CHANNEL, position, pipeline.clock())
    return position


def test_events_that_wait_for_the_first_of_two_entries_about_an_entity_ask_for_no_run(pipeline: QuietPipeline) -> None:
    """An object that is off its channel while the place in the stream is lost, for as long as nobody puts it back."""
    first, last = suspect(pipeline, Reason.OFF_CHANNEL), suspect(pipeline, Reason.LOST_CHECKPOINT)
    pipeline.update(pipeline.ids()[0], Name="delivered after both")
    pipeline.clock.advance(60_000)
    pipeline.catch_up()
    state = state_of(pipeline)
    assert state.applied is not None
    assert state.applied < first < last < state.landed
    assert state.suspects_marked == last, "the rows are marked for both"
    assert not state.has_work


def test_a_second_entry_about_an_entity_asks_for_a_run_that_marks_its_rows(pipeline: QuietPipeline) -> None:
    first = suspect(pipeline, Reason.OFF_CHANNEL)
    pipeline.catch_up()
    assert (state_of(pipeline).suspects_marked, state_of(pipeline).has_work) == (first, False)
    last = suspect(pipeline, Reason.LOST_CHECKPOINT)
    assert state_of(pipeline).has_work
    pipeline.catch_up()
    assert (state_of(pipeline).suspects_marked, state_of(pipeline).has_work) == (last, False)
