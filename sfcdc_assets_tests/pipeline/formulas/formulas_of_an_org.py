"""An org with formula fields, and its warehouse's values beside its own."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from sfcdc_assets.cli.local_dagster.channel_turn import Turn
from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.lake.store.formula_notes import FormulaNote, read_formula_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline

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
