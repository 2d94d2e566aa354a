"""View All is withdrawn from the user: whoever looks learns of it, nothing is lost, and giving it back is enough."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sfcdc_assets.cli.main import app
from sfcdc_assets.lake import gap_reconciliation
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

RECORDS = 30


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def told(result: Result) -> str:
    """What a command says, on one line."""
    return " ".join((result.stdout + result.stderr).split())


def check(run: Any) -> dict[str, Any]:
    """What the check of refused reads tells in a run."""
    (found,) = [each for each in run.get_asset_check_evaluations() if each.check_name == "reads_are_applied"]
    return {"passed": found.passed, **{name: value.value for name, value in found.metadata.items()}}


def living(pipeline: EmulatedPipeline) -> int:
    return sum(not row["_is_deleted"] for row in pipeline.rows("Account").values())


def test_with_view_all_withdrawn_nothing_is_read_nothing_is_deleted_and_everyone_is_told(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    synced.org.view_all.withdraw("Account")
    run = synced.launch("snapshot", "Account")
    assert not run.success
    assert "neither View All Data nor View All Records on Account" in synced.failure(run)
    assert check(run)["entities"] == "Account"
    audited = command("verify", "--json")
    assert audited.exit_code == 1
    reports = {each["entity"]: each for each in json.loads(audited.stdout)["entities"]}
    assert "View All Records on Account" in reports["Account"]["refused"]
    assert (reports["Contact"]["refused"], reports["Contact"]["in_org"]) == (None, RECORDS)
    assert "Account: the user has neither View All Data" in told(command("status"))
    with synced.org.transaction() as one:  # its events go on
        one.update("Account", ids(synced.org, "Account")[0], {"Site": "meanwhile"})
    synced_once = command("sync")
    assert synced_once.exit_code == 1
    assert "Not all is applied. Account: the user has neither" in told(synced_once)
    assert living(synced) == RECORDS
    assert synced.rows("Account")[ids(synced.org, "Account")[0]]["Site"] == "meanwhile"
    synced.org.view_all.give_back()
    again = synced.launch("snapshot", "Account")
    assert again.success, synced.failure(again)
    assert check(again)["passed"]
    assert command("sync", "--until-caught-up").exit_code == 0
    assert command("verify").exit_code == 0
    synced.assert_equal_to_the_org(["Account"])


def test_where_the_org_does_not_tell_the_threshold_holds_and_a_person_accepts(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(gap_reconciliation, "PAUSES_MS", {})
    synced.org.hidden_objects.add("PermissionSetAssignment")
    gone = ids(synced.org, "Account")[:25]
    with synced.org.database.transaction():
        for record_id in gone:
            synced.org.store.purge(synced.org.definitions["Account"], record_id, synced.org.clock())
    run = synced.launch("snapshot", "Account")
    assert not run.success
    assert "snapshot 2 does not show 25 of 30 living rows" in synced.failure(run)
    assert not check(run)["passed"]
    synced_once = command("sync")
    assert synced_once.exit_code == 1
    assert living(synced) == RECORDS
    assert "Account: snapshot 2 does not show 25 of 30 living rows" in told(command("status"))
    assert command("accept", "--entity", "Contact").exit_code == 1
    accepted = command("accept", "--entity", "Account")
    assert (accepted.exit_code, accepted.stdout.strip()) == (
        0,
        "Account: snapshot 2 is accepted; the next run applies it.",
    )
    finished = command("sync", "--until-caught-up")
    assert finished.exit_code == 0, told(finished)
    rows = synced.rows("Account")
    assert {key for key, row in rows.items() if row["_deleted_reason"] == "hard_deleted"} == set(gone)
    rebuilt = command("rebuild", "--entity", "Account")
    assert rebuilt.exit_code == 0, told(rebuilt)
    assert synced.rows("Account") == rows
