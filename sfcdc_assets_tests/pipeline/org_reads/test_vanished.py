"""Many rows that a read of the org no longer shows: not applied before a person says so.

Batches are applied in this process, by the functions of Spark's tasks; what goes through Dagster is in
`test_lost_permission`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables import open_suspect
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.org_reads import vanished
from sfcdc_assets.org_reads.vanished import NothingToAccept, RowsVanished, accept
from sfcdc_assets.salesforce.view_all import ViewAllMissing
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.removed_layers import remove_layers
from sfcdc_assets_tests.pipeline.stepwise import Copy, connected

pytestmark = pytest.mark.slow

RECORDS = 40


@pytest.fixture
def copy(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> Iterator[Copy]:
    """A table of 40 rows that equals the org; the org's permission sets are not known, so thresholds alone help."""
    monkeypatch.setattr(open_suspect, "FIRST_PAUSE_MS", 0)
    pipeline = make_pipeline("Account", records=RECORDS)
    pipeline.org.hidden_objects.add("PermissionSetAssignment")
    with connected(pipeline) as copy:
        copy.snapshot()
        copy.catch_up()
        assert len(copy.living()) == RECORDS
        yield copy


def test_a_snapshot_in_which_most_rows_vanish_is_not_applied_and_says_how_to_go_on(copy: Copy) -> None:
    copy.emulated.view_all.withdraw()
    with pytest.raises(
        RowsVanished, match=r"Account: snapshot 2 does not show \d+ of 40 .*sfcdc accept --entity Account"
    ):
        copy.snapshot()
    copy.catch_up()
    assert len(copy.living()) == RECORDS
    (refusal,) = copy.refusals()
    assert (refusal.record_id, refusal.reason, refusal.attempts) == (ENTITY, "vanished", 1)
    assert copy.state().refused == refusal.detail


def test_the_org_is_read_again_after_a_pause_and_believed_when_all_is_shown(copy: Copy) -> None:
    copy.emulated.view_all.withdraw()
    with pytest.raises(RowsVanished):
        copy.snapshot()
    assert not copy.state().needs_snapshot
    copy.later(600)
    assert copy.state().needs_snapshot
    copy.emulated.view_all.give_back()
    assert copy.snapshot().number == 3
    copy.catch_up()
    assert copy.refusals() == []
    assert not copy.state().needs_snapshot
    with pytest.raises(NothingToAccept):
        accept(copy.warehouse, "Account", copy.now)


def test_what_is_accepted_is_applied_once_and_a_rebuild_comes_to_the_same_rows(copy: Copy) -> None:
    gone = copy.purge(25)
    with pytest.raises(RowsVanished, match="25 of 40"):
        copy.snapshot()
    with copy.emulated.transaction() as one:  # events go on meanwhile, and come again on top of what is accepted
        one.update("Account", ids(copy.emulated, "Account")[0], {"Site": "meanwhile"})
    copy.catch_up()
    assert len(copy.living()) == RECORDS
    accepted = accept(copy.warehouse, "Account", copy.now)
    assert (accepted.snapshot, accepted.records) == (2, 0)
    copy.catch_up()
    rows = copy.pipeline.rows("Account")
    assert {key for key, row in rows.items() if row["_deleted_reason"] == "hard_deleted"} == gone
    assert rows[ids(copy.emulated, "Account")[0]]["Site"] == "meanwhile"
    assert copy.refusals() == []
    remove_layers(copy.warehouse, "Account")
    copy.catch_up()
    assert copy.pipeline.rows("Account") == rows


def test_what_was_read_back_since_is_newer_than_a_snapshot_that_is_accepted_late(copy: Copy) -> None:
    gone = copy.purge(25)
    with pytest.raises(RowsVanished):
        copy.snapshot()
    kept = ids(copy.emulated, "Account")[0]
    with copy.emulated.database.transaction():
        copy.emulated.store.update(copy.emulated.definitions["Account"], kept, {"Site": "unheard"})
    copy.audit()
    copy.catch_up()
    assert copy.pipeline.rows("Account")[kept]["Site"] == "unheard"
    assert len(copy.living()) == RECORDS
    accepted = accept(copy.warehouse, "Account", copy.now)
    assert (accepted.snapshot, accepted.records) == (2, 25)
    copy.catch_up()
    rows = copy.pipeline.rows("Account")
    assert rows[kept]["Site"] == "unheard"
    assert {key for key, row in rows.items() if row["_deleted_reason"] == "hard_deleted"} == gone
    assert copy.refusals() == []
    remove_layers(copy.warehouse, "Account")
    copy.catch_up()
    assert copy.pipeline.rows("Account") == rows


def test_a_refused_snapshot_stays_out_of_a_rebuild(copy: Copy) -> None:
    copy.purge(25)
    with pytest.raises(RowsVanished):
        copy.snapshot()
    remove_layers(copy.warehouse, "Account")
    copy.catch_up()
    assert len(copy.living()) == RECORDS
    assert [suspect.reason for suspect in copy.refusals()] == ["vanished"]


def test_rows_whose_delete_an_event_reported_do_not_vanish(copy: Copy) -> None:
    with copy.emulated.transaction() as many:
        for record_id in ids(copy.emulated, "Account")[:30]:
            many.delete("Account", record_id)
    copy.land()
    with copy.emulated.database.transaction():  # the recycle bin is emptied, too
        for record_id in copy.emulated.store.deleted_ids(copy.emulated.definitions["Account"]):
            copy.emulated.store.purge(copy.emulated.definitions["Account"], record_id, copy.emulated.clock())
    copy.snapshot()
    copy.catch_up()
    assert len(copy.living()) == RECORDS - 30


def test_a_few_rows_or_a_small_share_of_them_may_vanish(copy: Copy) -> None:
    gone = copy.purge(20)
    copy.snapshot()
    copy.catch_up()
    assert len(copy.living()) == RECORDS - len(gone)


def test_ids_are_compared_range_by_range(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vanished, "IDS_AT_ONCE", 1)
    copy.purge(21)
    with pytest.raises(RowsVanished, match="21 of 40"):
        copy.snapshot()


def test_records_that_were_read_back_and_are_mostly_gone_wait_to_be_accepted(copy: Copy) -> None:
    gone = copy.purge(25)
    copy.audit()
    copy.catch_up()
    assert len(copy.living()) == RECORDS
    (refusal,) = copy.refusals()
    assert "25 of 25 records read back, of 40 living rows, not in the org" in (refusal.detail or "")
    assert not copy.state().needs_snapshot
    accepted = accept(copy.warehouse, "Account", copy.now)
    assert (accepted.snapshot, accepted.records) == (None, 25)
    copy.catch_up()
    rows = copy.pipeline.rows("Account")
    assert {key for key, row in rows.items() if row["_deleted_reason"] == "hard_deleted"} == gone
    assert copy.refusals() == []
    remove_layers(copy.warehouse, "Account")
    copy.catch_up()
    assert copy.pipeline.rows("Account") == rows


def test_records_that_are_shown_again_end_the_refusal_by_themselves(copy: Copy) -> None:
    copy.audit()
    with copy.emulated.database.transaction():
        for record_id in ids(copy.emulated, "Account"):
            copy.emulated.store.update(copy.emulated.definitions["Account"], record_id, {"Site": "unheard"})
    copy.audit()
    copy.emulated.view_all.withdraw()
    copy.catch_up()
    assert len(copy.living()) == RECORDS
    assert len(copy.refusals()) == 1
    copy.emulated.view_all.give_back()
    copy.later(4_000)
    copy.catch_up()
    assert copy.refusals() == []
    assert {row["Site"] for row in copy.pipeline.rows("Account").values()} == {"unheard"}


def test_where_the_permission_is_known_to_be_missing_nothing_is_read(copy: Copy) -> None:
    copy.emulated.hidden_objects.clear()
    copy.emulated.view_all.withdraw("Account")
    with connected(copy.pipeline) as again:
        again.land()
        jobs = again.org.session.request("GET", "jobs/query/")["records"]
        with pytest.raises(ViewAllMissing, match="View All Records on Account"):
            again.snapshot()
        assert again.org.session.request("GET", "jobs/query/")["records"] == jobs
        (refusal,) = again.refusals()
        assert refusal.reason == "view_all_missing"
        with pytest.raises(NothingToAccept, match="View All"):
            accept(again.warehouse, "Account", again.now)
        again.catch_up()
        assert len(again.living()) == RECORDS
    copy.emulated.view_all.give_back()
    with connected(copy.pipeline) as later:
        later.snapshot()
        assert later.refusals() == []


def test_even_one_record_is_not_taken_for_gone_when_the_permission_is_known_to_be_missing(copy: Copy) -> None:
    copy.emulated.hidden_objects.clear()
    copy.emulated.view_all.withdraw("Account")
    hidden = next(
        str(record["Id"])
        for record in copy.emulated.records("Account")
        if record["OwnerId"] != copy.emulated.users.integration
    )
    copy.pipeline.server.faults.arm(Fault.INTERNAL_ERROR, 1)
    with copy.emulated.transaction() as one:
        one.update("Account", hidden, {"Site": "in a gap"})
    with connected(copy.pipeline) as again:
        again.catch_up()
        again.catch_up()  # what an event says is there is looked for twice
        assert hidden in again.living()
        assert len(again.refusals()) == 1
