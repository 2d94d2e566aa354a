"""View All is withdrawn from the user: whoever looks learns of it, nothing is lost, and giving it back is enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest
from typer.testing import CliRunner, Result

from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.cli.main import app
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.entities.refused_reads import refused_reads
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_reads.not_readable import note_not_readable
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.timeline.suspect_behaviour import BEHAVIOUR, REFUSED_READS
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

RECORDS = 30
SETTLED_SECONDS = 601.0


@pytest.fixture
def synced(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    """A pipeline through Dagster whose tables equal the org. Batches are applied by the functions of Spark's tasks in
    this process: nothing here depends on who runs them."""
    pipeline = make_pipeline("Account", "Contact", records=RECORDS)
    pipeline.sync()
    for reason in REFUSED_READS:  # so that no sync tries again by itself
        monkeypatch.setitem(BEHAVIOUR, reason, replace(BEHAVIOUR[reason], pauses_ms=(10**10, 10**10)))
    return pipeline


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the org's REST resources that are asked for about an account."""
    found: list[str] = []
    request = OrgSession.request

    def noted(session: OrgSession, method: str, path: str, **options: Any) -> Any:
        found.extend([path] if "Account" in path or "Account" in str(options) else [])
        return request(session, method, path, **options)

    monkeypatch.setattr(OrgSession, "request", noted)
    return found


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def description(result: Result) -> str:
    """What a command says, on one line."""
    return " ".join((result.stdout + result.stderr).split())


def check(pipeline: EmulatedPipeline) -> dict[str, Any]:
    """What the check of refused reads said last."""
    key = dg.AssetCheckKey(ASSETS.keys.current_state, "reads_are_applied")
    (newest,) = pipeline.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert newest.event is not None
    assert newest.event.dagster_event is not None
    found = newest.event.dagster_event.asset_check_evaluation_data
    return {"passed": found.passed, **{name: value.value for name, value in found.metadata.items()}}


def living(pipeline: EmulatedPipeline) -> int:
    return sum(not row["_is_deleted"] for row in pipeline.rows("Account").values())


def test_with_view_all_withdrawn_nothing_is_read_nothing_is_deleted_and_everyone_is_reported(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    synced.org.view_all.withdraw("Account")
    run = synced.launch("snapshot", "Account")
    assert not run.success
    assert "neither View All Data nor View All Records on Account" in synced.failure(run)
    assert check(synced)["entities"] == "Account"
    audited = command("verify", "--json")
    assert audited.exit_code == 1
    reports = {each["entity"]: each for each in json.loads(audited.stdout)["entities"]}
    assert "View All Records on Account" in reports["Account"]["refused"]
    assert (reports["Contact"]["refused"], reports["Contact"]["in_org"]) == (None, RECORDS)
    assert "Account: the user has neither View All Data" in description(command("status"))
    with synced.org.transaction() as one:  # its events go on
        one.update("Account", ids(synced.org, "Account")[0], {"Site": "meanwhile"})
    synced_once = command("sync", "--until-caught-up")
    assert synced_once.exit_code == 1
    assert "Not all is applied. Account: the user has neither" in description(synced_once)
    assert living(synced) == RECORDS
    assert synced.rows("Account")[ids(synced.org, "Account")[0]]["Site"] == "meanwhile"
    synced.org.view_all.give_back()
    again = synced.launch("snapshot", "Account")
    assert again.success, synced.failure(again)
    assert check(synced)["passed"]
    clock.sleep(SETTLED_SECONDS)  # the stream follows a permission that is given back within ten minutes
    assert command("sync", "--until-caught-up").exit_code == 0
    assert command("verify").exit_code == 0
    synced.assert_equal_to_the_org(["Account"])


def test_where_the_org_does_not_tell_the_threshold_holds_and_a_person_accepts(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    synced.org.hidden_objects.add("PermissionSetAssignment")
    gone = ids(synced.org, "Account")[:25]
    with synced.org.database.transaction():
        for record_id in gone:
            synced.org.store.purge(synced.org.definitions["Account"], record_id, synced.org.clock())
    run = synced.launch("snapshot", "Account")
    assert not run.success
    assert "snapshot 2 does not show 25 of 30 living rows" in synced.failure(run)
    assert not check(synced)["passed"]
    synced_once = command("sync")
    assert synced_once.exit_code == 1
    assert living(synced) == RECORDS
    assert "Account: snapshot 2 does not show 25 of 30 living rows" in description(command("status"))
    assert command("accept", "--entity", "Contact").exit_code == 1
    accepted = command("accept", "--entity", "Account")
    assert (accepted.exit_code, accepted.stdout.strip()) == (
        0,
        "Account: snapshot 2 is accepted; the next run applies it.",
    )
    finished = command("sync", "--until-caught-up")
    assert finished.exit_code == 0, description(finished)
    rows = synced.rows("Account")
    assert {key for key, row in rows.items() if row["_deleted_reason"] == "hard_deleted"} == set(gone)
    rebuilt = command("rebuild", "--entity", "Account")
    assert rebuilt.exit_code == 0, description(rebuilt)
    assert synced.rows("Account") == rows


@pytest.mark.slow
def test_an_object_that_the_user_may_not_read_any_more_is_reported_and_copied_again_when_it_may_be(
    make_pipeline: Callable[..., EmulatedPipeline], asked: list[str]
) -> None:
    """Salesforce says nothing: the events of it just do not come any more."""
    pipeline = make_pipeline("Account", "Contact", records=5)
    pipeline.sync()
    pipeline.org.hidden_objects.add("Account")

    def change(text: str) -> None:
        with pipeline.org.transaction() as work:
            work.update("Account", ids(pipeline.org, "Account")[0], {"Name": text})
            work.create("Account", {"Name": text})
            work.update("Contact", ids(pipeline.org, "Contact")[0], {"Title": text})

    clock.sleep(86_400)
    change("of which no event of the account comes")
    pipeline.settled_tick()
    pipeline.assert_equal_to_the_org(["Contact"])
    reported = check(pipeline)
    assert (reported["passed"], reported["entities"]) == (False, "Account")
    assert "may not read Account any more, so its events do not come. Give the user" in str(reported["not_applied"])
    del asked[:]
    for _ in range(3):
        clock.sleep(3_600)
        with suppress(RunFailed):
            pipeline.settled_tick()
    assert 0 < len(asked) < 15, "an object that may not be read costs few requests"
    pipeline.org.hidden_objects.clear()
    clock.sleep(3_600)
    pipeline.sync()
    assert all(row["_in_doubt"] for row in pipeline.rows("Account").values()), "the stream may not follow yet"
    clock.sleep(SETTLED_SECONDS)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    assert check(pipeline)["passed"]


def test_an_object_that_was_deleted_or_taken_off_the_channel_is_not_reported(tmp_path: Path) -> None:
    warehouse, org = Warehouse(str(tmp_path)), SimpleNamespace(members=lambda _: ChannelMembers(("Contact",)))
    note_not_readable(warehouse, cast(OrgConnection, org), {"Account": CHANNEL, "Contact": CHANNEL})
    assert list(refused_reads(warehouse)) == ["Contact"]
