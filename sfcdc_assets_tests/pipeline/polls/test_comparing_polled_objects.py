"""A polled object is behind the org by what was changed since its last poll: that is no difference to an audit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import NOW_ALL, TICK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.reconciliation.audit import audit
from sfcdc_assets.reconciliation.rolling_audit import RollingReport, look
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.polls.polled_org import OBJECTS, reading, rename
from sfcdc_assets_tests.run_contexts import run_on


def verified(*entities: str) -> Mapping[str, Any]:
    """The report of `sfcdc verify` on each."""
    asked = [part for entity in entities for part in ("--entity", entity)]
    return {each["entity"]: each for each in json.loads(sfcdc("verify", *asked, "--json").stdout)["entities"]}


def test_what_was_changed_since_the_last_poll_is_compared_again_and_is_no_difference(org: EmulatedPipeline) -> None:
    org.sync()
    rename(org, "Lead", 2, "since the last poll")
    org.org.clock.sleep(60)
    [report] = verified("Lead").values()
    assert report["equal"], report["differences"]
    assert report["compared_again"] == 2


def test_a_record_that_was_deleted_for_good_is_read_back_and_is_no_difference(org: EmulatedPipeline) -> None:
    """It is gone without a trace; the count of each day would find it."""
    org.sync()
    with org.org.transaction() as work:
        gone = ids(org.org, "Case")[-1]
        work.hard_delete("Case", gone)
    org.org.clock.sleep(60)
    [report] = verified("Case").values()
    assert (report["equal"], report["compared_again"]) == (True, 1), report["differences"]
    assert org.rows("Case")[gone]["_is_deleted"]


@dataclass(frozen=True)
class Meanwhile:
    """Lands, and after each object but the last that is compared the next one is changed."""

    poller: Poller
    org: EmulatedPipeline

    def land(self, channel: str, entity: str) -> LandingReport:
        report = self.poller.land(channel, entity=entity)
        following = OBJECTS[OBJECTS.index(entity) + 1 :]
        if following:
            rename(self.org, following[0], 2, f"after {entity} was compared")
            self.org.org.clock.sleep(60)
        return report


def test_each_object_is_asked_after_it_was_compared_though_all_were_asked_a_moment_before(
    org: EmulatedPipeline,
) -> None:
    org.sync()
    warehouse = Warehouse(str(org.warehouse))
    with connect(load_settings()) as connected, Poller(warehouse, connected, 0.0, NOW_ALL) as poller:
        run = run_on(warehouse, connected)
        reports = audit(run, dict.fromkeys(OBJECTS, POLLED), Meanwhile(poller, org), rounds=0)
    assert {each.entity: len(each.differences) for each in reports} == dict.fromkeys(OBJECTS, 0)
    assert {each.entity: len(each.left) for each in reports} == {"Case": 0, "Lead": 2, "Opportunity": 2}


def test_the_nightly_audit_has_nothing_read_back_that_the_next_poll_reads(org: EmulatedPipeline) -> None:
    org.sync()
    rename(org, "Case", 3, "not polled yet")
    org.org.clock.sleep(60)
    org.launch("audit")
    ledger = Ledger.open(Warehouse(str(org.warehouse)), "Case")
    assert ledger is None or not sum(ledger.counts().values())


def seen(connected: OrgConnection, warehouse: Warehouse) -> RollingReport:
    """A look of the rolling audit at a Lead table that has all that was read, at the end of a run."""
    return look(run_on(warehouse, connected, audit_percent=50.0), {"Lead": POLLED}, {}, {POLLED: clock.now_ms()})


def test_the_rolling_audit_waits_for_the_poll_of_the_object_and_not_for_that_of_another(org: EmulatedPipeline) -> None:
    org.sync()
    rename(org, "Lead", 2, "on its way")
    org.org.clock.sleep(60)
    with reading(org) as (reader, connected, warehouse):
        assert seen(connected, warehouse).suspicions >= 2
        org.org.clock.sleep(60)
        reader.land(TICK, entity="Case")
        report = seen(connected, warehouse)
        assert (report.differences, report.suspicions >= 2) == ((), True)
    org.sync()
    with reading(org) as (_, connected, warehouse):
        org.org.clock.sleep(600)
        report = seen(connected, warehouse)
        assert (report.differences, report.suspicions) == ((), 0)
