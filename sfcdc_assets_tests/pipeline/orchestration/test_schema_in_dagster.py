"""What Dagster shows of columns: their changes, what is known of them, where they come from, whether they follow."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.checks import schema
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow

COLUMNS = {"columns", "dagster/column_schema"}
"""Where a partition and an asset of one table have them."""


class Shown:
    """The newest materialization of each layer for Account, and the check."""

    def __init__(self, pipeline: EmulatedPipeline) -> None:
        self._pipeline = pipeline

    def sync_after(self, **values: Any) -> list[str]:
        """One event with the schema that the entity has now, and a sync; the changes of columns that its runs said."""
        before = len(self._metadata("current_state"))
        with self._pipeline.org.transaction() as one:
            one.update("Account", ids(self._pipeline.org, "Account")[0], values)
        self._pipeline.sync()
        return [each["schema_changes"] for each in self._metadata("current_state")[before:]]

    def metadata(self, layer: str) -> dict[str, Any]:
        """The newest with the table's columns, and what came after it: they are reported when they change."""
        found: dict[str, Any] = {}
        for each in self._metadata(layer):
            found = each if COLUMNS & each.keys() else {**found, **each}
        return found

    def _metadata(self, layer: str) -> list[dict[str, Any]]:
        partitions = None if layer == "account" else ["Account"]
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(["salesforce", layer]), asset_partitions=partitions)
        records = self._pipeline.instance.fetch_materializations(wanted, limit=100, ascending=True).records
        found = [record.asset_materialization for record in records]
        return [{name: value.value for name, value in each.metadata.items()} for each in found if each]

    def column(self, name: str) -> dg.TableColumn:
        columns = self.metadata("current_state")["columns"].columns
        return next(column for column in columns if column.name == name)

    def sources(self, layer: str, column: str) -> list[str]:
        deps = self.metadata(layer)["dagster/column_lineage"].deps_by_column[column]
        return [f"{dep.asset_key.path[-1]}.{dep.column_name}" for dep in deps]

    def evaluations(self) -> list[bool]:
        """What the runs themselves found of the check, newest first."""
        key = dg.AssetCheckKey(ASSETS.keys.current_state, "schema_follows_the_org")
        history = self._pipeline.instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
        events = [record.event.dagster_event for record in history if record.event]
        return [event.asset_check_evaluation_data.passed for event in events if event]

    def check(self) -> tuple[bool, dict[str, Any]]:
        result = schema.checked(ASSETS.warehouse(), ASSETS.settings())
        return result.passed, {name: value.value for name, value in result.metadata.items()}


def test_fields_that_come_go_and_come_back_are_reported_and_followed(synced: EmulatedPipeline) -> None:
    shown, setup = Shown(synced), synced.org.setup
    setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda record: "somewhere")
    setup.add_field("Account", "Zone__c", {"type": "double", "precision": 18, "scale": 2})
    description = shown.sync_after(Zone__c=2.5)
    assert description == ["Region__c added (string); Zone__c added (double)", "none"], (
        "the second run is after the snapshot"
    )
    assert shown.column("Zone__c").tags == {"salesforce_type": "double"}
    assert shown.column("Description").tags == {"salesforce_type": "textarea", "large_text": "true"}
    assert shown.sources("raw_events", "change_type") == ["ChangeEvents.ChangeEventHeader.changeType"]
    assert shown.sources("account", "BillingCity") == ["ChangeEvents.Account.BillingCity", "snapshot.BillingCity"]
    assert shown.sources("account", "_position") == ["current_state._position"]
    assert shown.sources("current_state", "_position") == ["raw_events.position"]
    assert shown.sources("history", "_position") == ["current_state._position"]
    assert shown.sources("text_fields", "value") == ["raw_events.payload"]
    assert shown.sources("gap_reconciliation", "reason") == ["raw_events.change_type"]

    setup.drop_field("Account", "Region__c")
    assert shown.sync_after(Phone="1") == ["Region__c retired (string)"]
    assert str(shown.column("Region__c").description).startswith("Retired")
    passed, metadata = shown.check()
    assert (passed, metadata["not_followed"], metadata["may_follow_with_the_next_run"]) == (True, [], [])
    assert metadata["changes_of_7_days"] == ["Account: Region__c retired (string)", "Account: Zone__c added (double)"]
    assert "Account" in [row.data["entity"] for row in metadata["columns"].records]
    assert set(shown.evaluations()) == {True}
    assert shown.sync_after(Phone="2") == ["none"]
    assert set(shown.evaluations()) == {True}

    setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda record: "elsewhere")
    assert shown.sync_after(Phone="3") == ["Region__c returned (string)", "none"]
    assert shown.column("Region__c").description == "Region."
    synced.assert_equal_to_the_org()
