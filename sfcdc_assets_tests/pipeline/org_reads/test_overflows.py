"""Overflows that come faster than the object is read: each snapshot answers the entries before its watermark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.org_reads.take_snapshot import SnapshotListener
from sfcdc_assets.snapshot import pages
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.stepwise import Copy, connected

RECORDS = 12


def overflow(copy: Copy, site: str) -> None:
    """A transaction of which no event tells what it changed."""
    copy.pipeline.server.faults.arm(Fault.OVERFLOW, 1)
    with copy.emulated.transaction() as many:
        for record_id in ids(copy.emulated, "Account"):
            many.update("Account", record_id, {"Site": site})


class Interrupted(SnapshotListener):
    def paged(self, progress: SnapshotProgress) -> None:
        raise InterruptedError


def test_a_snapshot_that_an_overflow_overtakes_is_finished_and_the_next_one_answers_it(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "FEWEST_ROWS_PER_PAGE", RECORDS // 3)
    monkeypatch.setattr(pages, "MOST_ROWS_PER_PAGE", RECORDS // 3)
    pipeline = make_pipeline("Account", records=RECORDS)
    with connected(pipeline) as copy:
        copy.snapshot()
        copy.catch_up()
        overflow(copy, "first")
        copy.catch_up()
        assert copy.state().entity_suspect is not None
        with pytest.raises(InterruptedError):
            copy.snapshot(Interrupted())  # the org has answered the query; reading the answer is interrupted
        overflow(copy, "second")
        copy.catch_up()
        report = copy.snapshot()
        assert (report.number, report.resumed) == (2, True)
        copy.catch_up()
        rows = pipeline.rows("Account")
        assert {row["Site"] for row in rows.values()} == {"first"}
        assert all(row["_in_doubt"] for row in rows.values())
        assert copy.state().needs_snapshot
        assert copy.snapshot().number == 3
        copy.catch_up()
        pipeline.assert_equal_to_the_org(["Account"])
        assert not any(row["_in_doubt"] for row in pipeline.rows("Account").values())
        assert not copy.state().needs_snapshot
