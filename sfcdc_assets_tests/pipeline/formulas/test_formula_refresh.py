"""Formula fields through the pipeline: equal to the org's, read again only where they may be others."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.org_connection.request_budget import RequestBudget
from sfcdc_assets.org_reads import due_formulas
from sfcdc_assets.salesforce.errors import QueryRefused
from sfcdc_assets_tests.cli.command import in_one_line, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.formulas.formulas_of_an_org import (
    DAY,
    DAYS_LEFT,
    FORMULAS,
    INTERVAL,
    as_of,
    assert_equal_to_the_org,
    kept,
    notes,
    read_formulas,
    sync_later,
    true,
)
from sfcdc_assets_tests.pipeline.story import Requests

pytestmark = pytest.mark.slow


def some_changes(pipeline: EmulatedPipeline, dice: Random) -> None:
    """A few transactions on records and their parents; what the org refuses is not done."""
    accounts, deals = ids(pipeline.org, "Account"), ids(pipeline.org, "Opportunity")
    for number in range(8):
        account, deal = dice.choice(accounts), dice.choice(deals)
        changes: list[tuple[str, str, dict[str, object]]] = [
            ("Account", account, {"Name": f"Renamed {number} {dice.random()}"}),
            ("Account", account, {"ParentId": dice.choice([None, *accounts])}),
            ("Account", account, {"Site": dice.choice(["Berlin", None])}),
            ("Account", account, {"Phone": str(number)}),
            ("Opportunity", deal, {"Amount": dice.randint(1, 99_999)}),
            ("Opportunity", deal, {"AccountId": dice.choice([None, *accounts])}),
            ("Opportunity", deal, {"CloseDate": f"2026-0{dice.randint(1, 9)}-11", "NextStep": "call"}),
        ]
        with pipeline.org.transaction() as work:
            for entity, record_id, values in dice.sample(changes, 2):
                try:
                    work.update(entity, record_id, values)
                except RecordError:
                    continue
            if dice.random() < 0.3:
                work.create("Opportunity", {"Name": "New", "StageName": "Prospecting", "CloseDate": "2026-01-31"})
    with pipeline.org.transaction() as work:
        work.delete("Opportunity", dice.choice(deals))


def test_values_equal_the_orgs_after_changes_of_records_parents_and_the_day(pipeline: EmulatedPipeline) -> None:
    pipeline.org.setup.add_field("Opportunity", "Days_Left__c", DAYS_LEFT)
    dice = Random(5)
    pipeline.sync()  # which describes the new field, too
    assert_equal_to_the_org(pipeline)
    for seconds in (INTERVAL, INTERVAL, DAY):
        some_changes(pipeline, dice)
        sync_later(pipeline, seconds)
        assert_equal_to_the_org(pipeline)


def test_values_equal_the_orgs_at_their_as_of_while_the_org_goes_on_changing(pipeline: EmulatedPipeline) -> None:
    """What a row says is what the org had when it was read, whatever has changed since; history says it too."""
    dice, seen = Random(17), dict[tuple[str, datetime], dict[str, object]]()
    for _ in range(6):
        some_changes(pipeline, dice)
        pipeline.org.clock.sleep(INTERVAL)
        began = datetime.fromtimestamp(pipeline.org.clock() / 1000, UTC)
        pipeline.sync()
        found, now = kept(pipeline, "Opportunity"), None
        for record_id, at in as_of(pipeline, "Opportunity").items():
            if at >= began:
                now = now or true(pipeline, "Opportunity", set(next(iter(found.values()))))
                seen[record_id, at] = now[record_id]
            assert found[record_id] == seen[record_id, at]
        some_changes(pipeline, dice)  # not read before the next round
    earlier = pipeline.scan("earlier_formula_values/Opportunity")
    assert len(earlier) > 5
    names = sorted(next(iter(seen.values())))
    for row in earlier:
        assert {each: row[each] for each in names} == seen[row["Id"], row[AS_OF].astimezone(UTC)]
    pipeline.sync()
    asked = 'SELECT "Id", _valid_from, _valid_to, "Weighted__c", _formulas_as_of AS read_at FROM opportunity_history'
    versions = json.loads(sfcdc("sql", "--format", "json", f"{asked} WHERE _formulas_as_of IS NOT NULL").stdout)
    assert any(each["_valid_to"] for each in versions)
    for each in versions:
        at = datetime.fromisoformat(each["read_at"]).astimezone(UTC)
        assert each["Weighted__c"] == seen[each["Id"], at]["Weighted__c"]


def test_a_parent_on_another_channel_is_followed_in_the_fields_that_formulas_read(pipeline: EmulatedPipeline) -> None:
    read_formulas(pipeline)
    deal = next(each for each in pipeline.org.records("Opportunity") if each["AccountId"])
    account, before = str(deal["AccountId"]), as_of(pipeline, "Opportunity")
    with pipeline.org.transaction() as work:
        work.update("Account", account, {"Phone": "123"})
    sync_later(pipeline)
    assert as_of(pipeline, "Opportunity") == before, "no formula reads the phone"
    with pipeline.org.transaction() as work:
        work.update("Account", account, {"Site": "Bonn"})
    sync_later(pipeline)
    assert_equal_to_the_org(pipeline)
    of_account = {str(each["Id"]) for each in pipeline.org.records("Opportunity") if each["AccountId"] == account}
    again = as_of(pipeline, "Opportunity")
    assert {record_id for record_id, at in again.items() if at != before[record_id]} == of_account


def test_a_second_look_costs_no_request_and_changes_nothing(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_formulas(pipeline)
    requests = Requests(pipeline.server, monkeypatch)
    pipeline.org.clock.sleep(INTERVAL)
    versions = [pipeline.table(f"formula_values/{entity}").version() for entity in FORMULAS]
    requests.take_all()
    assert pipeline.launch("read_formulas").success
    assert [each for each in requests.take_all() if "oauth2/token" not in each] == []
    assert [pipeline.table(f"formula_values/{entity}").version() for entity in FORMULAS] == versions


def test_a_look_before_its_time_is_not_made(pipeline: EmulatedPipeline) -> None:
    read_formulas(pipeline)
    before = notes(pipeline)
    pipeline.org.clock.sleep(INTERVAL - 60)
    read_formulas(pipeline)
    assert notes(pipeline) == before


def test_values_of_which_nothing_tells_are_read_again_after_the_days_of_the_setting(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_FORMULA_DAYS", "2")
    read_formulas(pipeline)
    before = as_of(pipeline, "Opportunity")
    pipeline.org.clock.sleep(DAY)
    read_formulas(pipeline)
    assert as_of(pipeline, "Opportunity") == before
    pipeline.org.clock.sleep(DAY + INTERVAL)
    read_formulas(pipeline)
    again = as_of(pipeline, "Opportunity")
    assert all(again[each] > before[each] for each in before)


def test_off_is_the_default_and_nothing_is_asked(pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFCDC_FORMULAS")
    pipeline.sync()
    assert not (pipeline.warehouse / "formula_values").exists()


def test_what_a_budget_is_not_enough_for_waits_and_loses_no_change(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_formulas(pipeline)
    monkeypatch.setattr(due_formulas, "IDS_PER_REQUEST", 2)
    monkeypatch.setattr(RequestBudget, "left", lambda _budget: 1)
    with pipeline.org.transaction() as work:
        for deal in ids(pipeline.org, "Opportunity"):
            work.update("Opportunity", deal, {"Amount": 77})
    for waiting in (6, 4, 2, 0):
        sync_later(pipeline)
        assert notes(pipeline)["Opportunity"].postponed == waiting
    assert_equal_to_the_org(pipeline)


def test_without_any_budget_everything_waits_and_it_is_said(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_FORMULA_PERCENT", "0")
    read_formulas(pipeline)
    assert notes(pipeline)["Opportunity"].postponed == 8
    assert pipeline.scan("formula_values/Opportunity") == []


def test_a_formula_that_is_deleted_leaves_the_others_as_they_are_in_the_org(pipeline: EmulatedPipeline) -> None:
    read_formulas(pipeline)
    pipeline.org.setup.drop_field("Opportunity", "Is_Large__c")
    with pipeline.org.transaction() as work:
        work.update("Opportunity", ids(pipeline.org, "Opportunity")[0], {"Amount": 1})
    sync_later(pipeline)
    assert "Is_Large__c" not in next(iter(kept(pipeline, "Opportunity").values()))
    assert_equal_to_the_org(pipeline)


def test_a_formula_whose_text_changes_is_read_again_for_all_records(pipeline: EmulatedPipeline) -> None:
    read_formulas(pipeline)
    pipeline.org.setup.drop_field("Opportunity", "Weighted__c")
    pipeline.org.setup.add_field("Opportunity", "Weighted__c", {"type": "currency", "formula": "Amount * 2"})
    with pipeline.org.transaction() as work:
        work.update("Opportunity", ids(pipeline.org, "Opportunity")[0], {"Amount": 1})
    sync_later(pipeline)
    assert_equal_to_the_org(pipeline)


def test_an_entity_is_read_whole_by_a_bulk_job_where_that_is_cheaper(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_formulas, "IDS_PER_REQUEST", 1)
    monkeypatch.setattr(due_formulas, "REQUESTS_OF_JOB", 2)
    read_formulas(pipeline)
    assert_equal_to_the_org(pipeline)
    some_changes(pipeline, Random(9))
    sync_later(pipeline)
    assert_equal_to_the_org(pipeline)


def test_a_formula_that_shows_what_is_withheld_is_not_read_and_what_was_read_goes(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_formulas(pipeline)
    monkeypatch.setenv("SFCDC_FORMULAS", "Opportunity.*")
    monkeypatch.setenv("SFCDC_EXCLUDE", "Account.Site")
    pipeline.org.clock.sleep(INTERVAL)
    assert pipeline.launch("read_formulas").success
    assert "Of_Account__c" not in next(iter(kept(pipeline, "Opportunity").values()))
    assert notes(pipeline)["Opportunity"].withheld == {"Of_Account__c": "it shows Account.Site"}


def computes_at_most(pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, text: int) -> None:
    monkeypatch.setattr(pipeline.org, "settings", replace(pipeline.org.settings, most_formula_text=text))


@pytest.mark.parametrize("by_ids", [True, False])
def test_formulas_that_are_too_complicated_for_one_query_are_read_in_parts(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, *, by_ids: bool
) -> None:
    if not by_ids:
        monkeypatch.setattr(due_formulas, "IDS_PER_REQUEST", 1)
        monkeypatch.setattr(due_formulas, "REQUESTS_OF_JOB", 2)
    computes_at_most(pipeline, monkeypatch, 70)
    read_formulas(pipeline)
    assert_equal_to_the_org(pipeline)
    some_changes(pipeline, Random(9))
    sync_later(pipeline)
    assert_equal_to_the_org(pipeline)
    assert notes(pipeline)["Opportunity"].withheld == {}


def test_a_formula_that_the_org_does_not_compute_is_withheld_and_keeps_no_other_from_being_read(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    computes_at_most(pipeline, monkeypatch, 35)
    read_formulas(pipeline)
    assert set(next(iter(kept(pipeline, "Opportunity").values()))) == {"Weighted__c", "Is_Large__c", "Closes_After__c"}
    assert_equal_to_the_org(pipeline)
    words = "the org refuses it (QUERY_TOO_COMPLICATED: Query is either selecting too many fields"
    for _ in range(2):
        note = notes(pipeline)["Opportunity"]
        assert (list(note.withheld), note.formulas, note.error) == (["Of_Account__c"], 3, None)
        assert note.withheld["Of_Account__c"].startswith(words)
        some_changes(pipeline, Random(3))
        sync_later(pipeline)
        assert_equal_to_the_org(pipeline)
    assert "Opportunity.Of_Account__c: this formula is withheld, because the org refuses it" in sfcdc("status").stdout
    assert "Opportunity.Of_Account__c" in in_one_line(sfcdc("doctor"))
    computes_at_most(pipeline, monkeypatch, 1_000)
    sync_later(pipeline)
    assert "Of_Account__c" not in next(iter(kept(pipeline, "Opportunity").values())), "it is tried once in a day"
    sync_later(pipeline, DAY)
    assert "Of_Account__c" in next(iter(kept(pipeline, "Opportunity").values()))
    assert_equal_to_the_org(pipeline)


def test_one_entitys_failure_stays_its_own(pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    real = due_formulas.read_formulas

    def refused(session: Any, entity: str, *rest: Any) -> Any:
        if entity == "Account":
            raise QueryRefused("SELECT", 400, "INVALID_FIELD", "No such column 'Full_Name__c'")
        return real(session, entity, *rest)

    monkeypatch.setattr(due_formulas, "read_formulas", refused)
    with pytest.raises(Exception, match="Full_Name__c"):
        pipeline.sync()
    assert len(pipeline.scan("formula_values/Opportunity")) == 8
    assert "Full_Name__c" in (notes(pipeline)["Account"].error or "")
    pipeline.assert_equal_to_the_org(["Opportunity"])


def test_a_table_that_is_built_again_has_its_formulas_read_again(pipeline: EmulatedPipeline) -> None:
    read_formulas(pipeline)
    first = as_of(pipeline, "Opportunity")
    with pipeline.org.transaction() as work:
        work.update("Account", ids(pipeline.org, "Account")[0], {"Site": "Bonn"})
    pipeline.org.clock.sleep(60)
    pipeline.sync()
    for entity in FORMULAS:
        assert sfcdc("rebuild", "--entity", entity).exit_code == 0
    pipeline.org.clock.sleep(INTERVAL)
    read_formulas(pipeline)
    assert_equal_to_the_org(pipeline)
    again = as_of(pipeline, "Opportunity")
    assert all(again[each] > first[each] for each in again)
