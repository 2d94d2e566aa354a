"""Field history that is read while other things happen: batches, refusals, suspects, new rules of privacy, packing."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.setup.companion_setup import track_fields
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_reads import field_history
from sfcdc_assets.reconciliation import past_in_history, versions_before
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.reconciliation.past_checks import (
    assert_true_to_the_log,
    before,
    past_of,
    refused_past,
    states,
)
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow, in_order

pytestmark = pytest.mark.slow


@pytest.fixture
def changed_before(make_pipeline: Any) -> EmulatedPipeline:
    return changed_before_its_copy(make_pipeline)


def changed_before_its_copy(make_pipeline: Any) -> EmulatedPipeline:
    """A small org that was copied after its accounts had changed."""
    pipeline: EmulatedPipeline = make_pipeline("Account", records=4)
    track_fields(pipeline.org, "Account", ["Industry", "Name"])
    values = {"Industry": ["Banking", "Energy", "Media"], "Name": ["a", "b", "c"]}
    for number in range(12):
        pipeline.org.clock.sleep(600)
        name = ("Industry", "Name")[number % 2]
        with pipeline.org.transaction() as work:
            work.update("Account", ids(pipeline.org, "Account")[number // 2 % 2], {name: values[name][number % 3]})
    pipeline.org.clock.sleep(7200)
    pipeline.sync()
    return pipeline


def test_a_batch_that_begins_meanwhile_has_the_commit_refused_and_made_again(
    changed_before: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = changed_before
    record = ids(pipeline.org, "Account")[0]
    write, refused = past_in_history.write_files, []

    def overtaken(*arguments: Any) -> Any:
        written = write(*arguments)
        if not refused:
            refused.append(written)
            with pipeline.org.transaction() as work:
                work.update("Account", record, {"Name": "meanwhile"})
            pipeline.sync()
        return written

    monkeypatch.setattr(past_in_history, "write_files", overtaken)
    (report,) = before("Account")
    assert report["versions"] == len(past_of(pipeline, "Account"))
    assert_versions_follow(pipeline.all_versions("Account"))
    folder = Warehouse(str(pipeline.warehouse)).filesystem("history/Account")
    assert all(folder.get_file_info(file.path).size is None for file in refused[0]), "of a refused commit nothing stays"


def test_fields_that_a_person_knows_were_tracked_are_certain_before_their_first_change(
    changed_before: EmulatedPipeline,
) -> None:
    pipeline = changed_before
    since = min(at for at, _ in states(pipeline.org, "Account")) + timedelta(seconds=1)
    before("Account", options=["--tracked-since", since.isoformat()])
    past = past_of(pipeline, "Account")
    assert assert_true_to_the_log(pipeline.org, "Account", past) > 20
    assert any("Industry" in row["_certain_fields"] and row["_valid_from"] == since for row in past)
    said = refusal(sfcdc("history-before", "--entity", "Account", "--tracked-since", "spring"))
    assert "--tracked-since: 'spring' is not a time" in said
    assert "Give a date from" in refusal(
        sfcdc("history-before", "--entity", "Account", "--tracked-since", "2019-01-01")
    )


def test_a_large_field_history_is_read_range_by_range_and_a_run_that_was_cut_short_is_ended_by_the_next(
    changed_before: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_history, "ROWS_BY_REST", 0)
    second = ids(changed_before.org, "Account")[1]
    windows = [IdWindow(None, second), IdWindow(second, None)]
    monkeypatch.setattr(CurrentState, "id_windows", lambda *_: iter(windows))
    append = versions_before.append_past

    def then_the_allowance_is_used_up(*arguments: Any) -> None:
        append(*arguments)
        changed_before.server.rest_faults.arm(RestFault.REQUEST_LIMIT, times=100)

    with monkeypatch.context() as patch:
        patch.setattr(versions_before, "append_past", then_the_allowance_is_used_up)
        assert "takes no more API requests" in refused_past("Account")
    first = past_of(changed_before, "Account")
    assert {row["Id"] < second for row in first} == {True}
    shown = sfcdc(
        "sql", "--format", "json", "SELECT count(*) AS n FROM account_history WHERE _change_type = 'FIELD_HISTORY'"
    )
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout) == [{"n": len(first)}], "what was written is in a cut"
    changed_before.server.rest_faults.disarm()
    (report,) = before("Account")
    past = past_of(changed_before, "Account")
    assert report["versions"] == len(past) - len(first) > 0
    assert report["records_done_before"] == 1
    assert_true_to_the_log(changed_before.org, "Account", past)
    assert_versions_follow(changed_before.all_versions("Account"))


def test_hidden_and_hashed_fields_stay_so(make_pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_EXCLUDE", "Account.Industry")
    monkeypatch.setenv("SFCDC_HASH", "Account.Name")
    monkeypatch.setenv("SFCDC_HASH_KEY", "a key of sixteen characters or more")
    pipeline = changed_before_its_copy(make_pipeline)
    (report,) = before("Account")
    assert {"field": "Industry", "why": "no column", "count": 6} in report["misfits"]
    assert report["versions"] > 0
    for row in past_of(pipeline, "Account"):
        assert row["Name"] is None
        assert "Industry" not in row


def test_what_is_hashed_or_hidden_later_is_not_kept_by_a_rebuild(
    changed_before: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    before("Account")
    assert any("Name" in row["_certain_fields"] for row in past_of(changed_before, "Account"))
    monkeypatch.setenv("SFCDC_EXCLUDE", "Account.Industry")
    monkeypatch.setenv("SFCDC_HASH", "Account.Name")
    monkeypatch.setenv("SFCDC_HASH_KEY", "a key of sixteen characters or more")
    assert sfcdc("rebuild", "--from-org", "--entity", "Account").exit_code == 0
    past = past_of(changed_before, "Account")
    assert len(past) > 6
    for row in past:
        assert row["Name"] is None
        assert set(row["_certain_fields"]) <= {"CreatedDate", "CreatedById"}
        assert "Industry" not in row
    assert_versions_follow(changed_before.all_versions("Account"))


def test_a_suspect_record_gets_its_past_when_it_is_certain_again(changed_before: EmulatedPipeline) -> None:
    suspect, other, *_ = ids(changed_before.org, "Account")
    changed_before.server.rest_faults.arm(RestFault.UNAVAILABLE, times=1000, path="/composite/sobjects")
    changed_before.server.faults.arm(Fault.INTERNAL_ERROR)
    with changed_before.org.transaction() as work:
        work.update("Account", suspect, {"Phone": "of which the event says nothing"})
    changed_before.org.clock.sleep(60)
    with suppress(Exception):
        changed_before.sync()
    assert changed_before.rows("Account")[suspect]["_in_doubt"]
    before("Account")
    assert {row["Id"] for row in past_of(changed_before, "Account")} == {other}
    changed_before.server.rest_faults.disarm()
    changed_before.org.clock.sleep(4000)
    changed_before.sync()
    assert not changed_before.rows("Account")[suspect]["_in_doubt"]
    before("Account")
    past = past_of(changed_before, "Account")
    assert {row["Id"] for row in past} == {suspect, other}
    assert_true_to_the_log(changed_before.org, "Account", past)
    assert_versions_follow(changed_before.all_versions("Account"))


def test_packing_and_a_later_snapshot_leave_it_as_it_is(changed_before: EmulatedPipeline) -> None:
    before("Account")
    past = sorted(past_of(changed_before, "Account"), key=lambda row: (row["Id"], *in_order(row)))
    assert sfcdc("maintain").exit_code == 0
    assert changed_before.launch("snapshot", "Account").success
    changed_before.sync()
    assert sorted(past_of(changed_before, "Account"), key=lambda row: (row["Id"], *in_order(row))) == past
    assert_versions_follow(changed_before.all_versions("Account"))
