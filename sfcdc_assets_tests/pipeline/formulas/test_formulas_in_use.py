"""What people and other parts have of formula fields: views, status, forgotten records, the watch and the sensor."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import dagster as dg
import duckdb
import pytest

from sfcdc_assets.cli.local_dagster.formula_reading import FormulaReading
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.orchestration.jobs import formulas as jobs
from sfcdc_assets.orchestration.jobs import ours
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.leaks import files_with
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.formulas.formulas_of_an_org import (
    DAY,
    INTERVAL,
    as_of,
    assert_equal_to_the_org,
    kept,
    notes,
    read_formulas,
    sync_later,
    true,
)

pytestmark = pytest.mark.slow


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
    written = sfcdc("views", "--duckdb", "views.duckdb")
    assert written.exit_code == 0, written.stderr
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
