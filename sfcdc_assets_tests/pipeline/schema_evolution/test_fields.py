"""Fields that come and go while the org lives: columns follow, values are there, nothing is lost."""

from __future__ import annotations

import pytest

from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import story

pytestmark = pytest.mark.slow


def test_a_new_field_gets_a_column_filled_from_the_org_and_a_dropped_one_keeps_its_last_values(
    synced: EmulatedPipeline,
) -> None:
    org, setup = synced.org, synced.org.setup
    first, second, third = ids(org, "Account")[:3]
    setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda record: f"R-{record['Id']}")
    with org.transaction() as work:
        work.update("Account", first, {"Region__c": "changed by an event", "Phone": "1"})
    synced.sync()
    rows = synced.rows("Account")
    assert rows[first]["Region__c"] == "changed by an event"
    assert rows[second]["Region__c"] == f"R-{second}", "the event alone cannot tell: filled from the org"
    synced.assert_equal_to_the_org()

    setup.drop_field("Account", "Region__c")
    with org.transaction() as work:
        work.update("Account", third, {"Phone": "3"})
    synced.sync()
    rows = synced.rows("Account")
    assert rows[third]["Phone"] == "3"
    assert rows[second]["Region__c"] == f"R-{second}", "the column of a dropped field stays"
    retired = {
        field.name
        for field in synced.table("current_state/Account").schema().fields
        if field.metadata.get("salesforce.retired")
    }
    assert retired == {"Region__c"}
    assert not [row for row in synced.scan("gap_reconciliation/Account") if row["status"] == "open"]


def test_events_written_with_an_older_schema_are_read_with_it_after_the_fields_have_moved(
    synced: EmulatedPipeline,
) -> None:
    org, setup = synced.org, synced.org.setup
    first, second = ids(org, "Account")[:2]
    with org.transaction() as work:
        work.update("Account", first, {"Phone": "before the change"})
    setup.add_field("Account", "Zone__c", {"type": "double", "precision": 18, "scale": 2})
    with org.transaction() as work:
        work.update("Account", second, {"Phone": "after it", "Zone__c": 2.5})
    synced.sync()
    assert len({row["schema_id"] for row in synced.scan("raw_events") if row["entity_name"] == "Account"}) == 2
    assert synced.rows("Account")[second]["Zone__c"] == 2.5
    synced.assert_equal_to_the_org()


def test_a_new_object_gets_partition_snapshot_and_tables_by_itself(synced: EmulatedPipeline) -> None:
    org = synced.org
    org.selected_entities = [*org.selected_entities, "Lead"]
    with org.transaction() as work:
        work.create("Lead", {"LastName": "New", "Company": "Object"})
    synced.sync()
    assert "Lead" in synced.partitions()
    synced.assert_equal_to_the_org(["Lead"])


@pytest.mark.parametrize("how", ["renamed", "made again", "made again as another type"])
def test_a_field_in_another_case_keeps_its_column_and_no_change_of_the_entity_waits(tmp_path, how):
    with story(tmp_path / "org", ("Account", "Contact")) as pipeline:
        org = pipeline.org
        org.setup.add_field("Account", "region__c", {"type": "string"}, values=lambda _: "north")
        pipeline.sync()
        first, second = ids(org, "Account")[:2]
        with org.transaction() as work:
            work.update("Account", first, {"region__c": "west"})
        if how == "renamed":
            org.setup.rename_field("Account", "region__c", "Region__c")
        else:
            org.setup.drop_field("Account", "region__c")
            type_ = "string" if how == "made again" else "double"
            org.setup.add_field(
                "Account", "Region__c", {"type": type_}, values=lambda _: "south" if type_ == "string" else 7.0
            )
        new = "east" if how != "made again as another type" else 8.0
        with org.transaction() as work:
            work.update("Account", first, {"Region__c": new})
        with org.transaction() as work:
            work.update("Account", second, {"Phone": "555"})
        for _ in range(3):
            pipeline.sync()
        rows = {row["Id"]: row for row in pipeline.scan("current_state/Account")}
        silent = {"renamed": "north", "made again": "south", "made again as another type": 7.0}[how]
        assert "Region__c" not in rows[first]
        assert (rows[first]["region__c"], rows[second]["region__c"]) == (new, silent)
        assert rows[second]["Phone"] == "555"
        assert not any(row["_in_doubt"] for row in rows.values())
        assert sfcdc("verify", "--entity", "Account").exit_code == 0
        assert sfcdc("rebuild", "--entity", "Account").exit_code == 0
        rebuilt = {row["Id"]: row["region__c"] for row in pipeline.scan("current_state/Account")}
        assert rebuilt == {record_id: row["region__c"] for record_id, row in rows.items()}
        with org.transaction() as work:
            work.update("Account", first, {"Region__c": None})
        pipeline.sync()
        assert {row["Id"]: row for row in pipeline.scan("current_state/Account")}[first]["region__c"] is None
