"""A person launches any job for any entity, or a range of them, at any time: no harm is done, the table is right."""

from __future__ import annotations

import pytest
from dagster import AssetKey, AssetRecordsFilter

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow

TABLES = [key.path[-1] for key in ASSETS.keys.of_tables]


def materialized(pipeline: EmulatedPipeline, layer: str) -> list[str | None]:
    """Entities that were materialized in a layer, in order."""
    records = pipeline.instance.fetch_materializations(
        AssetRecordsFilter(asset_key=AssetKey(["salesforce", layer])), limit=100, ascending=True
    ).records
    return [record.partition_key for record in records]


def test_an_entity_is_materialized_again_without_harm(synced: EmulatedPipeline) -> None:
    synced.sensor_tick()
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    before, versions = synced.rows("Account"), synced.versions()
    for _ in range(2):
        run = synced.materialize(TABLES, "Account")
        assert run.success, synced.failure(run)
    assert synced.rows("Account") == before
    assert synced.versions() == versions
    assert materialized(synced, "current_state") == ["Account", "Account"]


def test_one_entity_of_a_person_s_choice_is_brought_up_to_date_and_no_other(synced: EmulatedPipeline) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    contacts = synced.rows("Contact")
    with synced.org.transaction() as both:
        both.update("Account", ids(synced.org, "Account")[0], {"Name": "chosen"})
        both.update("Contact", ids(synced.org, "Contact")[0], {"Title": "not chosen"})
    run = synced.launch("sync", "Account")
    assert run.success, synced.failure(run)
    synced.assert_equal_to_the_org(["Account"])
    assert synced.rows("Contact") == contacts
    synced.sync()
    synced.assert_equal_to_the_org()


def test_a_range_of_entities_is_backfilled_in_one_run(synced: EmulatedPipeline) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    with synced.org.transaction() as both:
        both.create("Account", {"Name": "of the backfill"})
        both.delete("Contact", ids(synced.org, "Contact")[0])
    run = synced.materialize(["raw_events", *TABLES], "Account", "Contact")
    assert run.success, synced.failure(run)
    synced.assert_equal_to_the_org()
    assert sorted(materialized(synced, "current_state")) == ["Account", "Contact"]


def test_a_snapshot_taken_again_rebuilds_the_table_and_heals_what_no_event_said(synced: EmulatedPipeline) -> None:
    org = synced.org
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    silent, purged, deleted, updated = ids(org, "Account")[:4]
    with org.transaction() as heard:
        heard.delete("Account", deleted)
        heard.update("Account", updated, {"Name": "by an event"})
    with org.database.transaction():
        org.store.update(org.definitions["Account"], silent, {"Site": "behind the stream's back"})
        org.store.purge(org.definitions["Account"], purged, org.clock())
    contacts = synced.table("current_state/Contact").version()
    run = synced.launch("snapshot", "Account")
    assert run.success, synced.failure(run)
    with org.transaction() as later:
        later.update("Account", updated, {"Phone": "after the snapshot"})
    synced.sync()
    rows = synced.rows("Account")
    assert rows[silent]["Site"] == "behind the stream's back"
    gone = rows.pop(purged)
    assert (gone["_is_deleted"], gone["_deleted_reason"]) == (True, "hard_deleted")
    assert rows[deleted]["_is_deleted"]
    synced.assert_equal_to_the_org(["Contact"])
    assert synced.rows("Account")[updated]["Phone"] == "after the snapshot"
    assert synced.table("current_state/Contact").version() == contacts


def test_an_entity_that_no_channel_carries_is_refused_by_name(synced: EmulatedPipeline) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Lead"])
    versions = synced.versions()
    run = synced.launch("sync", "Lead")
    assert not run.success
    assert "Lead: no configured channel carries it" in synced.failure(run)
    assert synced.versions() == versions


def test_an_entity_without_a_snapshot_says_what_to_launch(synced: EmulatedPipeline) -> None:
    synced.org.selected_entities = ["Account", "Contact", "Task"]
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact", "Task"])
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[0], {"Name": "applied all the same"})
    run = synced.materialize(["raw_events", *TABLES], "Account", "Task")
    assert not run.success
    assert "Task: no complete snapshot" in synced.failure(run)
    assert "job `snapshot` for Task" in synced.failure(run)
    synced.assert_equal_to_the_org(["Account", "Contact"])
