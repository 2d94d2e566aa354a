"""What reading formulas may take of the org, what is remembered of it, and by which day the user lives."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sfcdc_assets.lake.store.formula_notes import HOUR_MS, FormulaNote, FormulaNotes, note_formulas, read_formula_notes
from sfcdc_assets.lake.store.notes import put_note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_reads.formula_budget import LEAST_ALLOWANCE, FormulaBudget
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.salesforce.time_zone import day_began
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.simulated_clock import SimulatedClock


class Allowed:
    """An org that is asked for its allowance."""

    def __init__(self, limit: Limit | None) -> None:
        self.limit, self.asked = limit, 0

    def api_allowance(self) -> Limit | None:
        self.asked += 1
        return self.limit


def budget(notes: FormulaNotes, org: Any) -> FormulaBudget:
    return FormulaBudget(notes, org, cast(Settings, SimpleNamespace(formula_percent=5, snapshot_reserve_percent=20)))


def test_a_share_of_the_day_may_be_spent_and_the_org_is_asked_once_an_hour() -> None:
    notes, org, time = FormulaNotes(), Allowed(Limit(100_000, 90_000)), SimulatedClock(0)
    with clock.using(time):
        asking = budget(notes, org)
        assert asking.left() == 5_000
        asking.spend(4_000)
        assert asking.left() == 1_000
        asking.spend(1_500)
        assert (asking.left(), org.asked) == (0, 1)
        time.advance(25 * HOUR_MS)
        assert (asking.left(), org.asked) == (5_000, 2)
        assert notes.spent_in_a_day(clock.now_ms()) == 0


@pytest.mark.parametrize(("limit", "left"), [(Limit(100_000, 20_500), 500), (Limit(100_000, 9), 0), (None, 750)])
def test_what_is_left_to_others_is_not_touched(limit: Limit | None, left: int) -> None:
    assert LEAST_ALLOWANCE * 0.05 == 750
    assert budget(FormulaNotes(), Allowed(limit)).left() == left


def test_notes_are_read_as_they_were_written_and_torn_ones_are_none(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    assert read_formula_notes(warehouse) == FormulaNotes()
    notes = FormulaNotes(
        {"Account": FormulaNote(5, 2, {"A__c": "why"}, 4, 3, "error", 1)}, {3: 4}, (9, 8, 7), ("GMT", 6)
    )
    note_formulas(warehouse, notes)
    assert read_formula_notes(warehouse) == notes
    for torn in (b"{", b'{"entities": {"Account": {"other": 1}}}', b"[]"):
        put_note(warehouse, "channels_read/formulas.json", torn)
        assert read_formula_notes(warehouse) == FormulaNotes()


def test_the_day_begins_where_the_user_is() -> None:
    moment = datetime(2025, 2, 3, 5, tzinfo=UTC)
    assert day_began("GMT", moment) == datetime(2025, 2, 3, tzinfo=UTC)
    assert day_began("America/Los_Angeles", moment) == datetime(2025, 2, 2, 8, tzinfo=UTC)
    assert day_began("No/Such_Zone", moment) == datetime(2025, 2, 3, tzinfo=UTC)
