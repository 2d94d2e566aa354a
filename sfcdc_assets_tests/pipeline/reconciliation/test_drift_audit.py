"""The drift audit: what no event said is found, reported, and healed; what it may cost is bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner, Result

from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.key_ranges import key_ranges
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.snapshot import pages
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import assert_equal_but_for, ledger, story, unhealed

pytestmark = pytest.mark.slow

SEED = 83
RECORDS = 40
PARTS = 4


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Tables in several parts, as large ones are."""
    print(f"seed {SEED}")
    with (
        story(tmp_path_factory.mktemp("drift"), ["Account"], records=RECORDS, seed=SEED) as pipeline,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(key_ranges, "TARGET_ROWS", RECORDS // PARTS)
        patch.setattr(pages, "FEWEST_ROWS_PER_PAGE", RECORDS // PARTS)
        patch.setattr(pages, "MOST_ROWS_PER_PAGE", RECORDS // PARTS)
        pipeline.sync()
        yield pipeline


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


def drift(org: EmulatedPipeline) -> dict[str, str]:
    """Changes that no event tells of; record id -> what an audit says of it."""
    site = f"changed after {org.org.last_commit_number} transactions"
    changed, lost, deleted, purged = ids(org.org, "Account")[:: RECORDS // 5][:4]
    with org.org.database.transaction():
        org.org.store.update(org.org.definitions["Account"], changed, {"Site": site})
        org.org.store.purge(org.org.definitions["Account"], purged, org.org.clock())
    org.server.faults.arm(Fault.LOST_EVENT, 3)
    with org.org.transaction() as unheard:
        unheard.update("Account", lost, {"Rating": None, "Name": "of a lost event"})
        unheard.delete("Account", deleted)
        created = unheard.create("Account", {"Name": "of no event"})
    return {
        changed: "Site",
        lost: "Name",
        deleted: "not in the org",
        purged: "not in the org",
        created: "missing in the table",
    }


def assert_equal(org: EmulatedPipeline) -> None:
    in_org = {str(record["Id"]) for record in org.org.records("Account", include_deleted=True)}
    assert_equal_but_for(org, "Account", sorted(org.rows("Account").keys() - in_org))


def test_what_no_event_reported_is_listed_by_verify_and_healed_by_its_repair(org: EmulatedPipeline) -> None:
    expected = drift(org)
    description = verify()
    assert description.exit_code == 3
    for record_id, what in expected.items():
        assert record_id in description.stdout
        assert what in description.stdout
    listed = json.loads(verify("--json").stdout)["entities"][0]["differences"]
    assert {each["record_id"] for each in listed} == expected.keys()
    assert unhealed(org) == []  # looking changes nothing
    repaired = verify("--repair", "--json")
    assert repaired.exit_code == 0, repaired.stderr
    assert json.loads(repaired.stdout)["equal"] is True
    assert_equal(org)
    entries = ledger(org)
    assert {entry["record_id"] for entry in entries} == expected.keys()
    assert {(entry["reason"], entry["status"]) for entry in entries} == {("drift", "healed")}
    rows = org.rows("Account")
    reasons = {rows[record_id]["_deleted_reason"] for record_id, what in expected.items() if what == "not in the org"}
    assert reasons == {"deleted", "hard_deleted"}


def evaluation(org: EmulatedPipeline) -> dg.AssetCheckEvaluation:
    """The check's result in a run of the job that the nightly schedule launches."""
    run = org.launch("audit")
    assert run.success, org.failure(run)
    (found,) = [each for each in run.get_asset_check_evaluations() if each.check_name == "equals_the_org"]
    return found


def test_the_asset_check_tells_what_differs_and_the_next_sync_heals_it(org: EmulatedPipeline) -> None:
    passed = evaluation(org)
    assert passed.passed
    expected = drift(org)
    failed = evaluation(org)
    assert (failed.check_name, failed.passed) == ("equals_the_org", False)
    description: dict[str, Any] = {name: value.value for name, value in failed.metadata.items()}
    assert all(any(record_id in each for each in description["first_differences"]) for record_id in expected)
    assert "Account" in [row.data["entity"] for row in description["compared"].records]
    assert description["api_requests"] > 0
    assert {entry["record_id"] for entry in unhealed(org)} == expected.keys()
    org.sync()
    assert_equal(org)
    assert evaluation(org).passed


def test_drift_is_healed_even_where_a_newer_event_of_the_record_is_applied_before_it_is_read(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read is pinned no later than the audit was, as it is while the org may still show events late."""
    monkeypatch.setattr(Watermarks, "of", lambda self, channel, at_least=0: at_least)
    record_id = ids(org.org, "Account")[-1]
    with org.org.database.transaction():
        org.org.store.update(org.org.definitions["Account"], record_id, {"Site": "of no event"})
    assert not evaluation(org).passed
    with org.org.transaction() as one:
        one.update("Account", record_id, {"Name": "of an event after the audit"})
    org.sync()
    assert_equal(org)
    assert unhealed(org) == []


def test_a_budget_leaves_parts_out_and_says_how_many(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pages of two records, as of a large table: the whole of it would take about 25 requests."""
    monkeypatch.setattr(pages, "FEWEST_ROWS_PER_PAGE", 2)
    monkeypatch.setattr(pages, "MOST_ROWS_PER_PAGE", 2)
    whole = json.loads(verify("--json").stdout)["entities"][0]
    assert (whole["windows"], whole["skipped"]) == (1, 0)
    parts = len(org.table("current_state/Account").file_uris())
    assert parts >= PARTS
    budget = whole["calls"] - 2
    result = verify("--json", "--budget", str(budget))
    assert result.exit_code == 0
    report = json.loads(result.stdout)["entities"][0]
    assert report["windows"] >= 2
    assert report["windows"] + report["skipped"] == parts
    assert report["skipped"] >= 1
    assert 0 < report["in_org"] < whole["in_org"]
    assert report["calls"] <= budget
    assert report["compared"] == report["in_org"]
    assert not report["equal"], "a part is not the whole"
    description = verify("--budget", str(budget)).stdout
    assert f"Account: {report['skipped']} of {parts} parts not read: the budget is spent" in description
    nothing = json.loads(verify("--json", "--budget", "0").stdout)["entities"][0]
    assert (nothing["windows"], nothing["skipped"]) == (0, parts)
