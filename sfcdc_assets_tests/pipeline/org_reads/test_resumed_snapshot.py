"""A snapshot that answers an entry about the entity goes on where it stopped, whatever has landed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_reads.take_snapshot import SnapshotReport, ToCopy, take_snapshot
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.pipeline.commits import another_memory
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.run_contexts import run_on


def no_spark() -> SparkSession:
    raise AssertionError("no file has to be rewritten")


def test_an_interrupted_answer_is_not_begun_again_because_events_have_landed(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    pipeline = make_pipeline("Account", records=20)
    warehouse = Warehouse(str(pipeline.warehouse))
    with connect(load_settings()) as org, Poller(warehouse, org, 1.0) as poller:

        def change_and_land() -> int:
            with pipeline.org.transaction() as one:
                one.update("Account", ids(pipeline.org, "Account")[0], {"Site": "lands meanwhile"})
            return poller.land(CHANNEL).position

        def take() -> SnapshotReport:
            run = run_on(warehouse, org, no_spark)
            return take_snapshot(run, ToCopy("Account", CHANNEL), lambda position: max(position, landed))

        landed = change_and_land()
        assert take().number == 1
        landed = change_and_land()
        suspect = NewSuspect(ENTITY, Reason.GAP_OVERFLOW, landed, None)
        Ledger.open_or_create(warehouse, "Account").note([suspect], CHANNEL, landed, 1)
        pipeline.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 100, path="/jobs/query", method="GET")
        with pytest.raises(SfcdcError):
            take()
        pipeline.server.rest_faults.disarm()
        pinned, landed = landed, change_and_land()
        report = take()
        assert (report.number, report.resumed, report.position) == (2, True, pinned)
        assert RawEvents.open(warehouse).checkpoint(CHANNEL).position > pinned


def test_entries_that_come_faster_than_the_object_is_read_do_not_starve_its_snapshot(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    """Every attempt is interrupted once, and a new entry comes meanwhile; each snapshot is finished all the same."""
    pipeline = make_pipeline("Account", records=20)
    warehouse = Warehouse(str(pipeline.warehouse))
    with connect(load_settings()) as org, Poller(warehouse, org, 1.0) as poller:
        landed = 0

        def suspect(reason: str = "GAP_OVERFLOW") -> int:
            with pipeline.org.transaction() as one:
                one.update("Account", ids(pipeline.org, "Account")[0], {"Site": f"after {landed}"})
            position = poller.land(CHANNEL).position
            noted = NewSuspect(ENTITY, Reason(reason), position, None)
            Ledger.open_or_create(warehouse, "Account").note([noted], CHANNEL, position, 1)
            return position

        def take() -> SnapshotReport:
            run = run_on(warehouse, org, no_spark)
            return take_snapshot(run, ToCopy("Account", CHANNEL), lambda position: max(position, landed))

        def interrupted() -> None:
            pipeline.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 100, path="/jobs/query", method="GET")
            with pytest.raises(SfcdcError):
                take()
            pipeline.server.rest_faults.disarm()

        landed = suspect()
        assert take().number == 1
        for number in (2, 3, 4):
            landed = suspect()
            interrupted()
            pinned, landed = landed, suspect()
            report = take()
            assert (report.number, report.resumed, report.position) == (number, True, pinned)
            (state,) = entity_states(warehouse, {"Account": CHANNEL})
            assert (state.entity_suspect, state.needs_snapshot) == (landed, True)  # the newer entry is the next one's

        landed = suspect()
        interrupted()
        landed = suspect("retyped_field")
        report = take()
        assert (report.number, report.resumed, report.position) == (6, False, landed)  # its columns were old


def test_of_two_processes_that_read_an_object_for_the_first_time_at_once_one_copy_counts(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one reads all of it between the first one's look at what there is and its opening of the table."""
    pipeline = make_pipeline("Account", records=20)
    warehouse, create = Warehouse(str(pipeline.warehouse)), Snapshots.open_or_create
    with connect(load_settings()) as org:
        run = run_on(warehouse, org, no_spark)

        def met(*arguments: Any) -> Snapshots:
            monkeypatch.setattr(Snapshots, "open_or_create", create)
            with another_memory():
                take_snapshot(run, ToCopy("Account", CHANNEL), lambda _: 0)
            return create(*arguments)

        monkeypatch.setattr(Snapshots, "open_or_create", met)
        with pytest.raises(ConcurrentCommit):
            take_snapshot(run, ToCopy("Account", CHANNEL), lambda _: 0)
    taken = Snapshots.open(warehouse, "Account")
    assert taken is not None
    assert [(each.number, each.rows) for each in taken.all_complete()] == [(1, 20)]
