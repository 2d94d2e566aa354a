"""A polled object that is read from the org again while polls go on: what they read meanwhile is in the new tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.reconciliation.rebuild import rebuild_from_org
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import session_of_tests
from sfcdc_assets_tests.pipeline.polls.polled_org import reading
from sfcdc_assets_tests.pipeline.reconciliation.test_rebuild_beside import at_commit
from sfcdc_assets_tests.run_contexts import run_on

REBUILT = "Case"


def change(org: EmulatedPipeline, value: str) -> None:
    with org.org.transaction() as work:
        work.update(REBUILT, ids(org.org, REBUILT)[0], {"Subject": value})
    org.org.clock.sleep(60)


def rebuild(warehouse: Warehouse, connected: OrgConnection, meanwhile: Callable[[], None]) -> None:
    """Read the object again; something happens after the copy was read and before it is put in place."""
    run = OrgRunContext.of(run_on(warehouse, spark=session_of_tests), connected)
    with (
        Poller(warehouse, connected, 1.0) as lander,
        at_commit(1, f"current_state/{REBUILT}", meanwhile) as commits,
    ):
        rebuild_from_org(run, REBUILT, POLLED, Watermarks(run, lander))
    assert commits


@pytest.mark.parametrize("is_applied", [False, True])
def test_what_is_polled_while_an_object_is_read_again_is_in_the_new_tables(
    org: EmulatedPipeline, *, is_applied: bool
) -> None:
    org.sync()
    with reading(org) as (reader, connected, warehouse):
        org.org.clock.sleep(1000)
        reader.land(TICK)

        def meanwhile() -> None:
            for number in range(2):
                org.org.clock.sleep(1000)
                change(org, f"polled {number} while it was read again, applied: {is_applied}")
                assert reader.land(TICK).events[REBUILT] == 1
                if is_applied:
                    org.sync()

        rebuild(warehouse, connected, meanwhile)
        org.org.clock.sleep(1000)
        reader.land(TICK)
        org.sync()
    org.assert_equal_to_the_org([REBUILT])
