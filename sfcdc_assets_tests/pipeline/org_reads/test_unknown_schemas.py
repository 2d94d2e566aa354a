"""Events whose schema the org does not give out: their records are suspect until they are read back, others go on."""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import ledger


def ticks(pipeline: EmulatedPipeline, times: int) -> None:
    for _ in range(times):
        clock.sleep(60)
        failed = outcome_of(pipeline.quick_tick)
        assert "Contact" not in str(failed), "only what asks for the schema itself fails, and is tried again"


def test_records_of_events_without_a_schema_are_suspect_until_they_are_read_back_and_all_others_go_on(
    synced: EmulatedPipeline,
) -> None:
    org, settings = synced.org, synced.org.settings
    synced.settled_tick()
    changed, deleted, other = ids(org, "Account")[:3]
    contact = ids(org, "Contact")[0]
    org.setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda _: None)
    synced.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.settings = replace(settings, daily_api_requests=1)  # nothing can be read back either
    before = synced.rows("Account")
    with org.transaction() as work:
        work.update("Account", changed, {"Region__c": "North", "Phone": "1"})
        created = work.create("Account", {"Name": "without a schema", "Region__c": "South"})
        work.update("Contact", contact, {"Title": "goes on"})
    with org.transaction() as work:  # one beside an update may be a merge
        work.delete("Account", deleted)
    ticks(synced, 3)
    rows = synced.rows("Account")
    assert {each for each, row in rows.items() if row["_in_doubt"]} == {changed, deleted, created}
    assert rows[other] == before[other]
    assert rows[changed]["Phone"] == before[changed]["Phone"]
    opened = [entry for entry in ledger(synced, "Account") if entry["status"] == "open"]
    assert {entry["reason"] for entry in opened} == {"undecodable_payload"}
    assert all("is not known" in entry["detail"] for entry in opened)
    assert synced.rows("Contact")[contact]["Title"] == "goes on"
    assert not max(synced.scan("consistent_cuts"), key=lambda cut: cut["position"])["lagging"]

    with org.transaction() as work:  # on top of what is suspect
        work.update("Account", changed, {"Phone": "2"})
    ticks(synced, 2)
    org.settings = settings
    clock.sleep(3_600)
    ticks(synced, 4)
    synced.assert_equal_to_the_org(["Contact"])
    assert {key: row["_is_deleted"] for key, row in synced.rows("Account").items() if key in (changed, deleted)} == {
        changed: False,
        deleted: True,
    }
    assert not any(row["_in_doubt"] for row in synced.rows("Account").values()), "read back while no schema is known"

    synced.server.faults.disarm()
    clock.sleep(3_600)
    with org.transaction() as work:
        work.update("Account", changed, {"Phone": "3"})
    ticks(synced, 3)
    clock.sleep(86_400)
    ticks(synced, 3)
    synced.sync()
    synced.assert_equal_to_the_org()
    assert {row["change_type"] for row in synced.scan("raw_events") if changed in row["record_ids"]} == {"UPDATE"}
