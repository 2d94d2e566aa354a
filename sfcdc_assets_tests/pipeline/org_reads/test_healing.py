"""Healing: what is suspect is read from the org, nothing else is, and neither refusals nor crashes lose any of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.tables import open_suspect
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.org_reads import read_back, stale_reads
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import (
    BULK,
    RETRIEVE,
    Entry,
    Requests,
    assert_equal_but_for,
    gap,
    ledger,
    story,
    unhealed,
    waits,
)

pytestmark = pytest.mark.slow

SEED = 41
REFUSALS = {
    RestFault.UNAUTHORIZED: "refuses even a fresh access token",
    RestFault.REQUEST_LIMIT: "takes no more API requests",
    RestFault.TOO_MANY_REQUESTS: "HTTP 429",
    RestFault.UNAVAILABLE: "HTTP 503",
    RestFault.URI_TOO_LONG: "414",
    RestFault.GARBAGE: "unexpected answer",
    RestFault.CUT_OFF: "broke in the middle of the answer",
    RestFault.TIMEOUT: "no answer within the time limit",
}
"""What the org, or something before it, may answer to a read, and what the ledger then says."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("healing"), ["Account"], records=40, seed=SEED) as pipeline:
        pipeline.sync()
        yield pipeline


def some(pipeline: EmulatedPipeline, count: int) -> Sequence[str]:
    """Live accounts, others for each number of transactions made so far; none that a case holds, and none that is the
    parent of another one, whose lookup a delete would clear."""
    named = {record["ParentId"] for record in pipeline.org.records("Account")}
    named |= {record["AccountId"] for record in pipeline.org.records("Case")}
    free = [each for each in ids(pipeline.org, "Account") if each not in named]
    return Random(pipeline.org.last_commit_number).sample(free, count)


def update(pipeline: EmulatedPipeline, record_id: str, **values: object) -> None:
    with pipeline.org.transaction() as one:
        one.update("Account", record_id, values)


def gone_for_good(pipeline: EmulatedPipeline) -> list[str]:
    return sorted(
        pipeline.rows("Account").keys() - {str(r["Id"]) for r in pipeline.org.records("Account", include_deleted=True)}
    )


def assert_healed(pipeline: EmulatedPipeline) -> None:
    assert unhealed(pipeline) == []
    assert waits(pipeline.rows("Account")) == set()
    assert_equal_but_for(pipeline, "Account", gone_for_good(pipeline))


def metadata_of_healing(pipeline: EmulatedPipeline) -> dict[str, Any]:
    key = dg.AssetKey(["salesforce", "gap_reconciliation"])
    found = pipeline.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=["Account"]), limit=1
    )
    materialization = found.records[0].asset_materialization
    assert materialization is not None
    return {name: value.value for name, value in materialization.metadata.items()}


def test_just_the_suspect_records_are_read_back_whatever_became_of_them(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, other, binned, purged, winner, loser = some(org, 6)
    faults = org.server.faults
    gap(org, "Account", changed, Name="changed unseen", Description=None)
    gap(org, "Account", other, BillingCity="Zürich")
    for kind in ("delete", "hard_delete"):
        faults.arm(Fault.INTERNAL_ERROR)
        with org.org.transaction() as one:
            getattr(one, kind)("Account", binned if kind == "delete" else purged)
    faults.arm(Fault.INTERNAL_ERROR, 2)
    with org.org.transaction() as one:
        one.merge("Account", winner, (loser,))
    last_known = org.rows("Account")[purged]
    requests = Requests(org.server, monkeypatch)
    org.tick()
    rows = org.rows("Account")
    expected = {changed: None, winner: None, binned: "deleted", purged: "hard_deleted", loser: "merged"}
    assert {record_id: rows[record_id]["_deleted_reason"] for record_id in expected} == expected
    assert rows[purged]["Name"] == last_known["Name"]
    seen = requests.take_all()
    assert [path for path in seen if RETRIEVE in path] == ["POST /composite/sobjects/Account"]
    assert seen.count("GET /queryAll/") == 1  # the recycle bin, for those that are not there
    assert not [path for path in seen if BULK in path]
    assert_healed(org)
    description = metadata_of_healing(org)
    assert (description["records_asked_for"], description["records_gone"], description["suspects_open"]) == (6, 1, {})
    assert description["api_requests_per_record"] <= 0.5
    assert description["seconds_to_heal"] < 60


def test_a_batch_that_is_too_long_for_a_proxy_is_read_in_smaller_ones(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(org.org, "settings", replace(org.org.settings, most_ids_in_retrieve=2))
    for record_id in some(org, 7):
        gap(org, "Account", record_id, Site="one of seven")
    requests = Requests(org.server, monkeypatch)
    org.tick()
    assert_healed(org)
    # 7 are refused, halves of 3 and 4 too; 1 and 2, 2 and 2 are given.
    assert len([path for path in requests.take_all() if RETRIEVE in path]) == 7


def test_a_refused_read_leaves_the_entry_with_its_reason_and_everything_else_flows(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, Any] = OrgSession.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(limits, "timeout_s", (2.0, 0.4))
    suspected, other = some(org, 2)
    gap(org, "Account", suspected, Name="held for long")
    noted: list[Entry] = []
    for number, fault in enumerate(REFUSALS):
        org.server.rest_faults.arm(fault, 100, path=RETRIEVE)
        update(org, other, Site=f"{fault} does not stop this")
        update(org, suspected, NumberOfEmployees=number)
        org.tick()
        org.server.rest_faults.disarm()
        noted += unhealed(org)
        assert org.rows("Account")[other]["Site"] == f"{fault} does not stop this"
        assert waits(org.rows("Account")) == {suspected}
    assert [entry["attempts"] for entry in noted] == list(range(1, len(REFUSALS) + 1))
    for entry, said in zip(noted, REFUSALS.values(), strict=True):
        assert said in entry["last_error"]
    assert len({entry["opened_position"] for entry in noted}) == 1
    org.sync()
    assert_healed(org)
    assert org.rows("Account")[suspected]["NumberOfEmployees"] == len(REFUSALS) - 1


def test_after_a_refusal_the_org_is_left_alone_until_the_pause_is_over(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_suspect, "FIRST_PAUSE_MS", 3_000_000)
    org.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 100, path=RETRIEVE)
    gap(org, "Account", some(org, 1)[0], Name="not at once")
    requests = Requests(org.server, monkeypatch)
    org.tick()
    assert [path for path in requests.take_all() if RETRIEVE in path] == ["POST /composite/sobjects/Account"]
    org.server.rest_faults.disarm()
    outcomes = org.sync()
    assert {outcome.jobs for outcome in outcomes} == {()}
    assert "read back after their pause: 1 of Account" in outcomes[-1].said
    assert [path for path in requests.take_all() if RETRIEVE in path] == []
    monkeypatch.setattr(open_suspect, "FIRST_PAUSE_MS", 0)
    org.sync()
    assert_healed(org)


def pause_by(sleep: Callable[[float], object], patch: pytest.MonkeyPatch) -> None:
    """How a run pauses between two reads of records from now on."""
    patch.setattr(read_back, "clock", SimpleNamespace(now=clock.now, now_ms=clock.now_ms, sleep=sleep))


@pytest.fixture
def lag(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets REST lag by far more than SFCDC_VISIBILITY_SECONDS allows for, and catch up in the reader's nth pause."""
    settings = org.org.settings
    pauses: list[float] = []

    def install(until_pause: int) -> None:
        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == until_pause:
                org.org.settings = settings

        pause_by(sleep, monkeypatch)
        monkeypatch.setattr(org.org, "settings", replace(settings, rest_delay=3_600_000))
        monkeypatch.setattr(stale_reads, "USUAL_LAGS", 100_000)  # no read is believed for want of time

    return install


def changes_that_rest_shows_late(pipeline: EmulatedPipeline) -> tuple[str, str, str]:
    """A changed, a new and a deleted record, of which the stream tells only that something happened."""
    changed, deleted = some(pipeline, 2)
    gap(pipeline, "Account", changed, Name="not shown yet")
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR, 2)
    with pipeline.org.transaction() as one:
        created = one.create("Account", {"Name": "not there yet"})
    with pipeline.org.transaction() as one:
        one.delete("Account", deleted)
    return changed, created, deleted


def test_a_read_that_is_older_than_the_events_before_it_is_not_taken_for_the_truth(
    org: EmulatedPipeline, lag: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """REST shows the old values of the one, nothing of the new one, and the deleted one alive."""
    lag(1)
    changed, created, deleted = changes_that_rest_shows_late(org)
    requests = Requests(org.server, monkeypatch)
    org.tick()
    assert len([path for path in requests.take_all() if RETRIEVE in path]) == 2
    rows = org.rows("Account")
    assert rows[changed]["Name"] == "not shown yet"
    assert (rows[created]["Name"], rows[created]["_is_deleted"]) == ("not there yet", False)
    assert rows[deleted]["_deleted_reason"] == "deleted"
    assert_healed(org)


def test_a_record_that_is_shown_too_late_waits_for_the_next_attempt(
    org: EmulatedPipeline, lag: Callable[[int], None]
) -> None:
    lag(3)  # later than the reader waits
    records = changes_that_rest_shows_late(org)
    org.tick()
    found = unhealed(org)
    assert {entry["record_id"] for entry in found} == set(records) == waits(org.rows("Account"))
    assert {entry["attempts"] for entry in found} == {1}
    assert all("older than the record's last event" in entry["last_error"] for entry in found)
    assert metadata_of_healing(org)["reads_older_than_events"] == 3
    org.org.settings = replace(org.org.settings, rest_delay=0)
    org.sync()
    assert_healed(org)


def test_a_record_is_not_waited_for_longer_than_the_org_may_be_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After that the next read is believed, whatever it shows: in an org of its own, whose tables are wrong then."""
    pauses: list[float] = []
    pause_by(pauses.append, monkeypatch)
    monkeypatch.setattr(read_back, "longest_lag_ms", lambda visibility_seconds: 500)
    with story(tmp_path / "org", ["Account"], records=10, seed=SEED) as pipeline:
        pipeline.sync()
        pipeline.org.settings = replace(pipeline.org.settings, rest_delay=3_600_000)
        changes_that_rest_shows_late(pipeline)
        pipeline.tick()
    assert max(pauses) == 0.5


def test_a_record_that_is_gone_without_an_event_is_believed_to_be_gone_when_its_last_event_is_old(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a new one that REST does not show yet, so it is not believed at once."""
    pause_by(lambda seconds: clock.sleep(min(seconds, 0.1)), monkeypatch)
    (record_id,) = some(org, 1)
    gap(org, "Account", record_id, Name="its last change")
    org.server.faults.arm(Fault.LOST_EVENT)
    with org.org.transaction() as one:
        one.hard_delete("Account", record_id)
    monkeypatch.setattr(stale_reads, "USUAL_LAGS", 100_000)
    for _ in range(2):
        org.tick()
        assert waits(org.rows("Account")) == {record_id}
    monkeypatch.setattr(stale_reads, "USUAL_LAGS", 0)
    org.tick()
    assert org.rows("Account")[record_id]["_deleted_reason"] == "hard_deleted"
    assert_healed(org)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, bool], None]:
    """Lets a method end once with an error, as it begins or when it is done."""

    def install(owner: type, name: str, afterwards: bool) -> None:
        original = getattr(owner, name)

        def once(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(owner, name, original)
            if afterwards:
                original(*arguments, **options)
            raise OSError(f"interrupted {'after' if afterwards else 'before'} {name}")

        monkeypatch.setattr(owner, name, once)

    return install


def test_healing_that_is_interrupted_anywhere_resumes_and_pays_for_no_read_twice(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, interrupted: Callable[[type, str, bool], None]
) -> None:
    requests = Requests(org.server, monkeypatch)
    reads = {}
    commit: Callable[..., Any] = DeltaTable.create_write_transaction

    def second_commit_fails(table: DeltaTable, *arguments: Any, **options: Any) -> Any:
        if "current_state/Account" in table.table_uri:
            commits.append(table.table_uri)
            if len(commits) == 2:  # the first one brings the entry, the second the read-back
                raise OSError("interrupted before the commit")
        return commit(table, *arguments, **options)

    for moment in ("before the read is kept", "after the read is kept", "before the commit", "before the entry closes"):
        record_id = some(org, 1)[0]
        gap(org, "Account", record_id, Name=moment)
        update(org, record_id, Site="waits")
        commits: list[str] = []
        with monkeypatch.context() as patch:
            if "commit" in moment:
                patch.setattr(DeltaTable, "create_write_transaction", second_commit_fails)
            elif "entry" in moment:
                interrupted(Ledger, "heal", False)
            else:
                interrupted(Snapshots, "add_read_back", moment.startswith("after"))
            with pytest.raises(RunFailed, match="interrupted"):
                org.tick()
        assert len(unhealed(org)) == 1, moment
        org.tick()
        assert_healed(org)
        reads[moment] = len([path for path in requests.take_all() if RETRIEVE in path])
    # Only a read that was not kept is repeated.
    assert reads.pop("before the read is kept") == 2
    assert set(reads.values()) == {1}
    assert all(entry["status"] == "healed" for entry in ledger(org))
