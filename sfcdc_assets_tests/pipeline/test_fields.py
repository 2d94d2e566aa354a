"""Fields that come and go while the org lives: columns follow, values are there, nothing is lost."""

from __future__ import annotations

from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids


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
