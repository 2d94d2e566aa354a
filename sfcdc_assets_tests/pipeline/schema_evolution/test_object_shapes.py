"""What the org's objects look like is in tables that follow describe, and in the views where labels are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process
from sfcdc_assets_tests.pipeline.story import Requests, story

pytestmark = pytest.mark.slow

SHAPES = ("objects", "fields", "picklist_values", "relationships", "record_types")


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[EmulatedPipeline]:
    with batches_in_this_process(), story(tmp_path / "org", ("Account", "Opportunity")) as pipeline:
        yield pipeline


def asked(statement: str, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(sfcdc("sql", "--json", *options, statement).stdout)
    return found


def change(pipeline: EmulatedPipeline, entity: str) -> None:
    """What makes the entity be described again."""
    with pipeline.org.transaction() as work:
        work.update(entity, ids(pipeline.org, entity)[0], {"Description": f"changed {pipeline.org.clock()}"})


def versions(pipeline: EmulatedPipeline) -> list[int]:
    return [pipeline.table(name).version() for name in SHAPES]


def test_the_first_copy_writes_the_shape_and_a_describe_that_says_the_same_nothing(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.org.setup.add_record_types("Opportunity", ["New Business", "Renewal"])
    pipeline.sync()
    (opportunity,) = asked("SELECT * FROM objects WHERE entity_name = 'Opportunity'")
    assert (opportunity["key_prefix"], opportunity["custom"], opportunity["_valid_to"]) == ("006", False, None)
    definition = pipeline.org.definitions["Opportunity"]
    shown = asked("SELECT name, type, label FROM fields WHERE entity_name = 'Opportunity' AND _valid_to IS NULL")
    assert {(each["name"], each["type"], each["label"]) for each in shown} == {
        (field.name, field.type, field.label) for field in definition.fields
    }
    stages = asked("SELECT value FROM picklist_values WHERE field = 'StageName' ORDER BY sort_order")
    assert [each["value"] for each in stages] == list(definition.fields_by_name["StageName"].picklist_values)
    types = asked("SELECT name FROM record_types WHERE entity_name = 'Opportunity' AND NOT master ORDER BY name")
    assert [each["name"] for each in types] == ["New Business", "Renewal"]
    assert asked("SELECT relationship_name FROM relationships WHERE entity_name = 'Account' AND field = 'AccountId'")

    before = versions(pipeline)
    monkeypatch.setenv("SFCDC_DESCRIBE_SECONDS", "0")
    requests = Requests(pipeline.server, monkeypatch)
    change(pipeline, "Account")
    pipeline.sync()
    described = [each for each in requests.take_all() if each.endswith("/Account/describe")]
    assert described, "Account was described again"
    assert versions(pipeline) == before


def test_a_label_a_value_and_a_field_that_change_are_versions(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_DESCRIBE_SECONDS", "0")
    pipeline.sync()
    setup = pipeline.org.setup
    setup.label_picklist_value("Account", "Industry", "Energy", "Power and gas")
    change(pipeline, "Account")
    pipeline.sync()
    rows = asked("SELECT * FROM picklist_values WHERE value = 'Energy' ORDER BY _valid_from")
    assert [row["label"] for row in rows] == ["Energy", "Power and gas"]
    assert [row["_valid_to"] for row in rows] == [rows[1]["_valid_from"], None]

    setup.add_field("Account", "Region__c", {"type": "string", "length": 40})
    change(pipeline, "Account")
    pipeline.sync()
    setup.drop_field("Account", "Region__c")
    change(pipeline, "Account")
    pipeline.sync()
    (region,) = asked("SELECT length, _valid_from, _valid_to FROM fields WHERE name = 'Region__c'")
    assert region["length"] == 40
    assert region["_valid_to"] > region["_valid_from"]


def test_a_picklist_that_is_spelt_in_another_case_keeps_its_labels(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_DESCRIBE_SECONDS", "0")
    setup = pipeline.org.setup
    setup.add_field("Account", "tier__c", {"type": "picklist", "values": ["a", "b"]}, values=lambda _: "a")
    setup.label_picklist_value("Account", "tier__c", "a", "First")
    pipeline.sync()
    labels = "SELECT DISTINCT tier__c, tier__c_label FROM account"
    assert asked(labels, "--labels") == [{"tier__c": "a", "tier__c_label": "First"}]
    setup.rename_field("Account", "tier__c", "Tier__c")
    setup.label_picklist_value("Account", "Tier__c", "a", "The first")
    change(pipeline, "Account")
    pipeline.sync()
    assert asked(labels, "--labels") == [{"tier__c": "a", "tier__c_label": "The first"}]


def test_views_have_labels_and_record_type_names_beside_the_values_where_that_is_asked_for(
    pipeline: EmulatedPipeline,
) -> None:
    org, setup = pipeline.org, pipeline.org.setup
    setup.add_record_types("Opportunity", ["New Business", "Renewal"])
    setup.add_field("Opportunity", "Lead_Source__c", {"type": "multipicklist", "values": ["a", "b", "c"]})
    setup.label_picklist_value("Opportunity", "Lead_Source__c", "a", "First")
    setup.label_picklist_value("Opportunity", "StageName", "Prospecting", "Looking around")
    chosen = ids(org, "Opportunity")[0]
    renewal = asked_type(pipeline, "Renewal")
    with org.transaction() as work:
        work.update(
            "Opportunity",
            chosen,
            {"StageName": "Prospecting", "Lead_Source__c": "a;c", "LeadSource": None, "RecordTypeId": renewal},
        )
    pipeline.sync()
    beside = "stage_name_label, lead_source__c_label, lead_source_label, record_type_name"
    expected = {
        "stage_name_label": "Looking around",
        "lead_source__c_label": "First;c",
        "lead_source_label": None,
        "record_type_name": "Renewal",
    }
    for view in ("opportunity", "opportunity_history"):
        rows = asked(f"SELECT {beside} FROM {view} WHERE \"Id\" = '{chosen}' ORDER BY _valid_from DESC", "--labels")
        assert rows[0] == expected, view
    (both,) = asked('SELECT count(*) AS here, count(DISTINCT "Id") AS ids FROM opportunity', "--labels")
    assert both["here"] == both["ids"] == len(ids(org, "Opportunity"))

    refused = sfcdc("sql", "SELECT stage_name_label FROM opportunity")
    assert refused.exit_code == 1, "they are not there unless asked for"
    assert sfcdc("views", "--labels", "--duckdb", "views.duckdb").exit_code == 0
    with duckdb.connect("views.duckdb") as views:
        row = views.execute(f"SELECT {beside} FROM opportunity WHERE \"Id\" = '{chosen}'").fetchone()
        assert row == tuple(expected.values())
    (source,) = yaml.safe_load(sfcdc("dbt-sources", "--labels").stdout)["sources"]
    columns = next(table["columns"] for table in source["tables"] if table["name"] == "opportunity")
    described = {column["name"]: column.get("description", "") for column in columns}
    assert len(described) == len(columns), "no column is listed twice"
    assert described["stage_name_label"] == "Label of the value in StageName, as it is now."
    assert described["record_type_name"] == "Name of the record type in RecordTypeId, as it is now."


def asked_type(pipeline: EmulatedPipeline, name: str) -> str:
    """The id of a record type, as a client of the org finds it."""
    pipeline.sync()
    (found,) = asked(f"SELECT record_type_id AS id FROM record_types WHERE name = '{name}'")
    return str(found["id"])
