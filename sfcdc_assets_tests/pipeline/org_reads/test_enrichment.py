"""Enriched events as a check: drift that nothing else tells of is found, read back and gone; the rest is left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import RETRIEVE, Requests, go_on, ledger, make_channel, story, waits

SEED = 67
ENRICHED = ["Name", "Site", "NumberOfEmployees", "AnnualRevenue", "CreatedDate", "Description", "BillingAddress"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Accounts on a custom channel, which carries seven more of their fields with each update and delete."""
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("enrichment"), ["Account"], records=16, seed=SEED) as pipeline:
        make_channel("Sales__chn", {"AccountChangeEvent": ENRICHED})
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SFCDC_CHANNELS", "/data/Sales__chn")
            pipeline.sync()
        yield pipeline


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    """The module's org and tables, which are equal when a test begins."""
    go_on(shared, monkeypatch)
    monkeypatch.setenv("SFCDC_CHANNELS", "/data/Sales__chn")
    return shared


def update(pipeline: EmulatedPipeline, *record_ids: str, **values: object) -> None:
    """By one user always: a lost change by another would leave drift in LastModifiedById, which is not enriched."""
    with pipeline.org.transaction(user_id=pipeline.org.users.integration) as one:
        for record_id in record_ids:
            one.update("Account", record_id, values)


def test_drift_is_found_by_an_enriched_value_and_only_that_record_is_read_back(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_ids = ids(org.org, "Account")
    several, (moved, binned), by_events = record_ids[:4], record_ids[4:6], record_ids[6:12]
    text = "\n".join(f"line {number} of a text that is long enough to be sent as a difference" for number in range(40))
    update(org, several[2], Description=text)
    org.sync()
    org.server.faults.arm(Fault.LOST_EVENT, 4)
    update(org, several[0], Site="secret site", NumberOfEmployees=8412)
    update(org, moved, BillingCity="Łódź")
    update(org, binned, AnnualRevenue=0.1)
    update(org, several[2], Description=text + "\nnobody heard of this line")
    # The events say nothing of what was lost, but they carry it.
    update(org, *several, Industry="Energy")
    update(org, moved, BillingStreet="1 Main St")
    update(org, *by_events, Site="changed by an event", Rating="Hot")
    update(org, by_events[0], Rating="Cold")
    with org.org.transaction() as one:
        one.delete("Account", binned)
        one.delete("Account", by_events[1])
    requests = Requests(org.server, monkeypatch)
    org.sync()
    found = {entry["record_id"]: entry for entry in ledger(org)}
    assert found.keys() == {several[0], moved, binned, several[2]}
    assert {entry["reason"] for entry in found.values()} == {"drift"}
    assert {entry["status"] for entry in found.values()} == {"healed"}
    assert found[several[0]]["detail"].startswith("NumberOfEmployees, Site: ")
    assert found[several[2]]["detail"].startswith("Description: ")
    assert found[moved]["detail"].startswith("BillingCity: ")
    assert "secret" not in str(found)
    assert "8412" not in str(found)
    # In one request each: what was complete at first, and what the last transaction's deletes show.
    assert [path for path in requests.take_all() if RETRIEVE in path] == 2 * ["POST /composite/sobjects/Account"]
    org.assert_equal_to_the_org()
    read = [row for row in org.all_versions("Account") if row["_change_type"] == "REFETCH"]
    assert {row["Id"] for row in read} == {several[0], moved, several[2]}
    assert waits(org.rows("Account")) == set()

    # What was healed is not found again, and neither is the next event's text suspect: its base is what was read.
    update(org, *several, moved, Industry="Media", Description=None)
    org.sync()
    assert len(ledger(org)) == len(found)
    org.assert_equal_to_the_org()


def test_a_value_that_is_newer_than_its_event_is_explained_by_a_later_event_of_the_batch(
    org: EmulatedPipeline,
) -> None:
    """Salesforce reads the values when it delivers, so an event may carry what only a later one changes."""
    before = len(ledger(org))
    in_one_batch, in_two = ids(org.org, "Account")[12:14]
    update(org, in_one_batch, in_two, Phone="0")

    def carried_before_it_was_changed(record_id: str, value: str) -> None:
        org.server.faults.arm(Fault.LOST_EVENT)
        update(org, record_id, Site=value)
        update(org, record_id, Rating="Hot" if org.org.record("Account", record_id)["Rating"] != "Hot" else "Cold")

    carried_before_it_was_changed(in_one_batch, "soon")
    update(org, in_one_batch, Site="between")
    update(org, in_one_batch, Site="soon")
    carried_before_it_was_changed(in_two, "in the next batch")
    org.sync()
    # The later event that would explain the other one has not come: one read that was not needed, never a wrong value.
    (entry,) = ledger(org)[before:]
    assert (entry["record_id"], entry["reason"], entry["status"]) == (in_two, "drift", "healed")
    update(org, in_two, Site="between")
    update(org, in_two, Site="in the next batch")
    org.sync()
    assert len(ledger(org)) == before + 1
    org.assert_equal_to_the_org()
