"""The check of columns is red where a table does not follow the org, and only there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column, columns
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.schemas import EventSchema, Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.checks import schema

Change = Callable[[Column], Column | None]


class Table:
    """A warehouse with one table of Account, whose columns are those of its event schema but for a change."""

    def __init__(self, folder: Path) -> None:
        self._warehouse = Warehouse(str(folder))
        org = EmulatedOrg()
        bus = EventBus(org)
        self._schema_id = bus.newest_schema_id("Account")
        schema_json = bus.schema_json(self._schema_id)
        org.close()
        assert schema_json is not None
        self._schema_json = schema_json

    def made(self, change: Change, schema_seen: datetime) -> None:
        seen_ms = int(schema_seen.timestamp() * 1000)
        schema = EventSchema(self._schema_id, self._schema_json, "Account", seen_ms, None)
        Schemas(self._warehouse).add(schema)
        changed = [change(column) for column in columns(json.loads(self._schema_json))]
        CurrentState.open_or_create(self._warehouse, "Account", [column for column in changed if column is not None])


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path))
    return Table(tmp_path)


def checked() -> tuple[dg.AssetCheckResult, dict[str, Any]]:
    result = schema.checked(ASSETS.warehouse(), ASSETS.settings())
    assert isinstance(result, dg.AssetCheckResult)
    return result, {name: value.value for name, value in result.metadata.items()}


def broken(column: Column) -> Column | None:
    """No Industry, and a name that is a number."""
    if column.name == "Name":
        return replace(column, type=ColumnType.DOUBLE, salesforce_type="double")
    return column if column.name != "Industry" else None


REPORTED = ["Account: Industry has no column", "Account: Name is double, its field string"]


def test_a_table_that_has_every_field_passes(table: Table) -> None:
    table.made(lambda column: column, datetime.now(UTC) - timedelta(days=1))
    result, metadata = checked()
    assert result.passed
    assert metadata["not_followed"] == metadata["may_follow_with_the_next_run"] == metadata["changes_of_7_days"] == []


def test_a_field_without_a_column_or_with_one_of_another_type_fails_after_an_hour(table: Table) -> None:
    table.made(broken, datetime.now(UTC) - timedelta(hours=2))
    result, metadata = checked()
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert metadata["not_followed"] == REPORTED


def test_a_schema_that_was_just_seen_may_still_be_followed_by_the_next_run(table: Table) -> None:
    table.made(broken, datetime.now(UTC) - timedelta(minutes=5))
    result, metadata = checked()
    assert result.passed
    assert (metadata["not_followed"], metadata["may_follow_with_the_next_run"]) == ([], REPORTED)


def test_without_tables_there_is_nothing_to_fail(table: Table) -> None:
    result, metadata = checked()
    assert result.passed
    assert "Account" not in [row.data["entity"] for row in metadata["columns"].records]
