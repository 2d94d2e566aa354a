"""What reading formulas may take of the org, what is remembered of it, and by which day the user lives."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.formulas.wanted_formulas import RefusedFormula
from sfcdc_assets.lake.store.formula_notes import FormulaNote, FormulaNotes, note_formulas, read_formula_notes
from sfcdc_assets.lake.store.notes import put_note
from sfcdc_assets.lake.store.request_ledger import FORMULAS, HOUR_MS, POLLS, RequestLedger, note_ledger, read_ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.request_budget import LEAST_ALLOWANCE, RequestBudget
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.salesforce.time_zone import day_began
from sfcdc_assets_tests.simulated_clock import SimulatedClock


class Allowed:
    """An org that is asked for its allowance."""

    def __init__(self, limit: Limit | None) -> None:
        self.limit, self.asked = limit, 0

    def api_allowance(self) -> Limit | None:
        self.asked += 1
        return self.limit


def budget(ledger: RequestLedger, org: Any, purpose: str = FORMULAS) -> RequestBudget:
    return RequestBudget(ledger, org, purpose, 5, 20)


def test_a_share_of_the_day_may_be_spent_and_the_org_is_asked_once_an_hour() -> None:
    ledger, org, time = RequestLedger(), Allowed(Limit(100_000, 90_000)), SimulatedClock(0)
    with clock.using(time):
        asking = budget(ledger, org)
        assert asking.left() == 5_000
        asking.spend(4_000)
        assert asking.left() == 1_000
        asking.spend(1_500)
        assert (asking.left(), org.asked) == (0, 1)
        time.advance(25 * HOUR_MS)
        assert (asking.left(), org.asked) == (5_000, 2)
        assert ledger.spent_in_a_day(FORMULAS, clock.now_ms()) == 0


@pytest.mark.parametrize(("limit", "left"), [(Limit(100_000, 20_500), 500), (Limit(100_000, 9), 0), (None, 750)])
def test_what_is_left_to_others_is_not_touched(limit: Limit | None, left: int) -> None:
    assert LEAST_ALLOWANCE * 0.05 == 750
    assert budget(RequestLedger(), Allowed(limit)).left() == left


def test_what_goes_on_all_day_is_never_out_of_requests_for_longer_than_an_hour() -> None:
    ledger, org, time = RequestLedger(), Allowed(Limit(48_000, 48_000)), SimulatedClock(0)
    share, made = 48_000 * 5 // 100, []
    with clock.using(time):
        for _ in range(72):
            asking = budget(ledger, org, POLLS)
            left = asking.left_this_hour()
            asking.spend(left)
            made.append(left)
            time.advance(HOUR_MS)
    assert made[0] == share // 2
    assert all(sum(made[start : start + 24]) <= share for start in range(48))
    assert min(made[25:]) > 0


def test_each_purpose_has_its_own_share_and_the_ledger_keeps_what_others_wrote(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    mine, others = read_ledger(warehouse), read_ledger(warehouse)
    assert mine == RequestLedger()
    mine.spend(POLLS, 5, 1)
    mine.postpone(POLLS, "why", ("Case",), 7)
    mine.postpone(POLLS, "still", ("Case", "Lead"), 9)
    others.spend(FORMULAS, 3, 1)
    note_ledger(warehouse, mine, POLLS)
    note_ledger(warehouse, others, FORMULAS)
    found = read_ledger(warehouse)
    assert (found.spent_in_a_day(POLLS, 1), found.spent_in_a_day(FORMULAS, 1)) == (5, 3)
    assert (found.postponed[POLLS].since_ms, found.postponed[POLLS].objects) == (7, ("Case", "Lead"))
    for torn in (b"{", b'{"spent": 1}', b"[]"):
        put_note(warehouse, "channels_read/requests.json", torn)
        assert read_ledger(warehouse) == RequestLedger()


def test_notes_are_read_as_they_were_written_and_torn_ones_are_none(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    assert read_formula_notes(warehouse) == FormulaNotes()
    notes = FormulaNotes(
        {"Account": FormulaNote(5, 2, {"A__c": "why"}, 4, 3, "error", 1, {"B__c": RefusedFormula("1", "so", 2)})},
        ("GMT", 6),
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
