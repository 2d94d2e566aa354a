"""Formula fields through the pipeline: equal to the org's, read again only where they may be others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import duckdb
import pytest

from sfcdc_assets.cli.local_dagster.channel_turn import Turn
from sfcdc_assets.cli.local_dagster.formula_reading import FormulaReading
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.lake.store.formula_notes import FormulaNote, read_formula_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import formulas as jobs
from sfcdc_assets.orchestration.jobs import ours
from sfcdc_assets.org_connection.request_budget import RequestBudget
from sfcdc_assets.org_reads import formula_refresh
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.leaks import files_with
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import (
    ENDED_AT,
    batches_in_this_process,
    copied,
    new_org,
    only_settings_of_tests,
    served,
)
from sfcdc_assets_tests.pipeline.story import Requests

FORMULAS: dict[str, dict[str, dict[str, Any]]] = {
    "Account": {"Full_Name__c": {"type": "string", "formula": "Name & ' / ' & Parent.Name"}},
    "Opportunity": {
        "Weighted__c": {"type": "currency", "formula": "Amount * Probability"},
        "Of_Account__c": {"type": "string", "formula": "Account.Full_Name__c & ' ' & Account.Site"},
        "Is_Large__c": {"type": "boolean", "formula": "Amount > 50000"},
        "Closes_After__c": {"type": "date", "formula": "ADDMONTHS(CloseDate, 1)"},
    },
}
DAYS_LEFT: dict[str, Any] = {"type": "double", "scale": 0, "formula": "CloseDate - TODAY()"}
INTERVAL, DAY = 901, 86_400
Values = dict[str, dict[str, object]]


def settings_of_formulas(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("SFCDC_POLL", "Account")
    patch.setenv("SFCDC_FORMULAS", "Account.Full_Name__c,Opportunity.*__c")


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An org and its warehouse: opportunities raise events, their accounts are polled, no formula was read yet."""
    folder = tmp_path_factory.mktemp("formulas") / "org"
    org = new_org(folder, ["Opportunity"], 8)
    for entity, formulas in FORMULAS.items():
        for name, options in formulas.items():
            org.setup.add_field(entity, name, options)
    with pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with served(org, folder, patch) as pipeline:
            patch.setenv("SFCDC_POLL", "Account")
            pipeline.sync()
            (folder / ENDED_AT).write_text(str(org.clock()))
    return folder


@pytest.fixture
def pipeline(first_day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """A copy of it; formulas are read from now on."""
    with copied(first_day, tmp_path / "org", monkeypatch) as made:
        settings_of_formulas(monkeypatch)
        yield made


def read_formulas(pipeline: EmulatedPipeline) -> None:
    """A run of the job, as the sensor asks for it."""
    assert pipeline.launch("read_formulas").success


def kept(pipeline: EmulatedPipeline, entity: str) -> Values:
    """The values of the table, by record; a record with two rows fails the test."""
    rows = pipeline.scan(f"formula_values/{entity}")
    found = {row.pop("Id"): row for row in rows}
    assert len(found) == len(rows)
    return {record_id: {name: row[name] for name in row if name != AS_OF} for record_id, row in found.items()}


def true(pipeline: EmulatedPipeline, entity: str, names: set[str]) -> Values:
    """The org's values now, with the types of the table."""
    return {
        str(row["Id"]): {
            name: date.fromisoformat(str(row[name])) if is_date(row[name]) else row[name] for name in names
        }
        for row in pipeline.org.records(entity)
    }


def is_date(value: object) -> bool:
    return isinstance(value, str) and len(value) == 10 and value[4] == value[7] == "-"


def assert_equal_to_the_org(pipeline: EmulatedPipeline) -> None:
    for entity in FORMULAS:
        found = kept(pipeline, entity)
        assert found
        assert found == true(pipeline, entity, set(next(iter(found.values()))))


def sync_later(pipeline: EmulatedPipeline, seconds: float = INTERVAL) -> list[Turn]:
    pipeline.org.clock.sleep(seconds)
    return pipeline.sync()


def notes(pipeline: EmulatedPipeline) -> dict[str, FormulaNote]:
    return read_formula_notes(Warehouse(str(pipeline.warehouse))).entities


def as_of(pipeline: EmulatedPipeline, entity: str) -> dict[str, datetime]:
    return {row["Id"]: row[AS_OF].astimezone(UTC) for row in pipeline.scan(f"formula_values/{entity}")}


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


def test_off_is_the_default_and_nothing_is_asked(pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFCDC_FORMULAS")
    pipeline.sync()
    assert not (pipeline.warehouse / "formula_values").exists()


def test_what_a_budget_is_not_enough_for_waits_and_loses_no_change(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_formulas(pipeline)
    monkeypatch.setattr(formula_refresh, "IDS_PER_REQUEST", 2)
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
    monkeypatch.setattr(formula_refresh, "IDS_PER_REQUEST", 1)
    monkeypatch.setattr(formula_refresh, "REQUESTS_OF_JOB", 2)
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


def test_one_entitys_failure_stays_its_own(pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    real = formula_refresh.read_formulas

    def refused(session: Any, entity: str, *rest: Any) -> Any:
        if entity == "Account":
            raise formula_refresh.QueryRefused("SELECT", 400, "INVALID_FIELD", "No such column 'Full_Name__c'")
        return real(session, entity, *rest)

    monkeypatch.setattr(formula_refresh, "read_formulas", refused)
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


def test_views_have_formulas_beside_the_columns_as_of_when_they_were_read(pipeline: EmulatedPipeline) -> None:
    read_formulas(pipeline)
    deal = ids(pipeline.org, "Opportunity")[0]
    asked = f"""SELECT "Id", "Weighted__c", _formulas_as_of FROM opportunity WHERE "Id" = '{deal}'"""
    found = sfcdc("sql", "--format", "json", asked)
    assert found.exit_code == 0, found.stderr
    (row,) = json.loads(found.stdout)
    assert row["Weighted__c"] == kept(pipeline, "Opportunity")[deal]["Weighted__c"]
    assert row["_formulas_as_of"][:19].replace(" ", "T") == as_of(pipeline, "Opportunity")[deal].isoformat()[:19]
    counted = """SELECT count(*) AS n, count("Of_Account__c") AS formulas FROM opportunity"""
    assert json.loads(sfcdc("sql", "--format", "json", counted).stdout) == [{"n": 8, "formulas": 8}]
    moment = datetime.fromtimestamp(pipeline.org.clock() / 1000, UTC).isoformat()
    assert json.loads(sfcdc("sql", "--format", "json", "--at", moment, asked).stdout) == [row]
    versions = asked.replace("FROM opportunity", "FROM opportunity_history")
    assert row in json.loads(sfcdc("sql", "--format", "json", versions).stdout)
    assert sfcdc("views", "--duckdb", "views.duckdb").exit_code == 0
    with duckdb.connect("views.duckdb", read_only=True) as views:
        assert views.execute("SELECT count(_formulas_as_of) FROM opportunity").fetchone() == (8,)
    assert "Weighted__c" in sfcdc("dbt-sources").stdout


def test_what_formulas_show_of_a_forgotten_record_goes_over_all_lookups_and_no_look_brings_it_back(
    pipeline: EmulatedPipeline,
) -> None:
    """The org still has the record; an opportunity shows it by its account's parent, another one did before."""
    shown, work = {"its name": "Zambrowitzka & Daughters"}, pipeline.org
    holding, account, other, *_ = ids(work, "Account")
    deal, moved, *rest = ids(work, "Opportunity")
    for changes in (
        {holding: {"Name": shown["its name"], "ParentId": None}, account: {"ParentId": holding}},
        {deal: {"AccountId": account}, moved: {"AccountId": account}},
        {moved: {"AccountId": other}, other: {"ParentId": None}},
    ):
        with work.transaction() as one:
            for record_id, values in changes.items():
                one.update("Account" if record_id in (holding, account, other) else "Opportunity", record_id, values)
        sync_later(pipeline)
    tables = {each.partition(" in ")[2] for each in files_with(shown, pipeline.warehouse)}
    for name in ("formula_values/Account", "formula_values/Opportunity", "earlier_formula_values/Opportunity"):
        assert any(f"{name}/" in each for each in tables), name

    assert sfcdc("forget", "--entity", "Account", "--id", holding).exit_code == 0
    assert files_with(shown, pipeline.warehouse) == []
    for amount in (1, 2):
        with work.transaction() as one:
            one.update("Opportunity", deal, {"Amount": amount, "AccountId": account})
            one.update("Account", account, {"Site": f"Bonn {amount}"})
        sync_later(pipeline)
        assert files_with(shown, pipeline.warehouse) == []
    found = kept(pipeline, "Opportunity")
    expected = true(pipeline, "Opportunity", set(found[deal]))
    assert found[deal] == expected[deal] | {"Of_Account__c": None}, "its other formulas show nothing of it"
    assert {each: found[each] for each in (moved, *rest)} == {
        each: expected[each] | ({"Of_Account__c": None} if shown["its name"] in str(expected[each]) else {})
        for each in (moved, *rest)
    }


def test_status_says_how_old_the_values_are_and_what_is_withheld(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_formulas(pipeline)
    found = json.loads(sfcdc("status", "--json").stdout)["formulas"]["Opportunity"]
    oldest = min(as_of(pipeline, "Opportunity").values())
    assert found["formulas"] == len(next(iter(kept(pipeline, "Opportunity").values())))
    assert abs((datetime.fromisoformat(found["oldest"]) - oldest).total_seconds()) < 1
    assert "the oldest values were read at" in sfcdc("status").stdout
    monkeypatch.setenv("SFCDC_EXCLUDE", "Account.Site")
    pipeline.org.clock.sleep(INTERVAL)
    read_formulas(pipeline)
    said = sfcdc("status").stdout
    assert "Opportunity.Of_Account__c: this formula is withheld, because it shows Account.Site." in said


def test_maintenance_knows_the_tables(pipeline: EmulatedPipeline) -> None:
    read_formulas(pipeline)
    before = kept(pipeline, "Opportunity")
    done = sfcdc("maintain", "--json").stdout
    assert "formula_values/Opportunity" in done
    assert kept(pipeline, "Opportunity") == before


def test_a_watch_reads_formulas_beside_its_channels(pipeline: EmulatedPipeline) -> None:
    said: list[str] = []
    reading = FormulaReading(load_settings(), said.append)
    reading.look()
    pipeline.org.clock.sleep(load_settings().visibility_seconds + 1)
    eventually(lambda: {"Opportunity", "Account"} <= notes(pipeline).keys(), "a round")
    assert_equal_to_the_org(pipeline)
    assert said == []


def test_the_sensor_asks_for_a_run_when_an_entity_is_due_and_pauses_after_one_that_failed(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_asked() -> bool:
        sensor = defs.resolve_sensor_def(ASSETS.name("read_formulas_when_due"))
        with dg.build_sensor_context(pipeline.instance, definitions=defs) as context:
            return bool(sensor.evaluate_tick(context).run_requests)

    assert is_asked()
    read_formulas(pipeline)
    assert not is_asked()
    pipeline.org.clock.sleep(INTERVAL)
    assert is_asked()
    monkeypatch.setenv("SFCDC_PASSWORD", "wrong")
    monkeypatch.setenv("SFCDC_CLIENT_SECRET", "wrong")
    monkeypatch.setattr(jobs, "PAUSE_SECONDS", 30 * DAY)  # the run ended by the machine's clock
    assert not pipeline.launch("read_formulas").success
    assert not is_asked()
    monkeypatch.setattr(jobs, "PAUSE_SECONDS", 0)
    assert is_asked()


def test_runs_of_the_job_are_forgotten_like_those_of_others() -> None:
    assert {job.name for job in defs.jobs or ()} - {"__ASSET_JOB"} == ours(ASSETS).jobs
