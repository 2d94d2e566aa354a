"""A sync of an org whose REST side takes requests and answers none, while its events come: what has landed is applied.

What a try takes, and the pauses between tries, pass on the simulated clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sfcdc_assets.apply.catch_up import HEALING_SECONDS
from sfcdc_assets.cli.local_dagster.drive import sync_channels
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import SYNC
from sfcdc_assets.orchestration.jobs.started_run import BEGINNING_SECONDS
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS, REST_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import OrganizationReplaced, OrgUnavailable
from sfcdc_assets.salesforce.instance import MOST_SECONDS
from sfcdc_assets.salesforce.paused_logins import FIRST_SECONDS
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process
from sfcdc_assets_tests.silent_org import black_hole, is_any

pytestmark = pytest.mark.slow

SECONDS = MOST_SECONDS + REST_SECONDS + BEGINNING_SECONDS + 2 * HEALING_SECONDS + 20.0
"""What the reading, the look, the beginning of a run, its descriptions and its checks wait for the org in all, and a
little."""


@pytest.fixture(autouse=True)
def in_this_process() -> object:
    with batches_in_this_process():
        yield


def is_no_login(url: str) -> bool:
    return "/services/oauth2/" not in url


@pytest.mark.parametrize("is_silent", [is_no_login, is_any])
def test_what_has_landed_is_applied_by_a_sync_although_the_org_answers_no_request(
    synced: EmulatedPipeline, is_silent: Callable[[str], bool]
) -> None:
    with OpenChannels(forgotten_seconds=math.inf) as channels:

        def sync(*, until_caught_up: bool) -> None:
            said: list[str] = []
            sync_channels(synced.instance, until_caught_up=until_caught_up, report=said.append, channels=channels)

        sync(until_caught_up=True)
        clock.sleep(MEMBERS_SECONDS + 1)
        with synced.org.transaction() as work:
            work.update("Account", ids(synced.org, "Account")[0], {"Phone": "12345"})
        synced.sensor_tick()
        clock.sleep(20)
        synced.sensor_tick()
        with black_hole(is_silent) as tries:
            began = clock.current().monotonic()
            sync(until_caught_up=False)
            took = clock.current().monotonic() - began
        assert tries
        synced.assert_equal_to_the_org()
        assert took <= SECONDS


def test_a_code_server_that_starts_while_the_login_is_silent_asks_for_the_run_over_what_has_landed(
    synced: EmulatedPipeline,
) -> None:
    with synced.org.transaction() as work:
        work.update("Account", ids(synced.org, "Account")[0], {"Phone": "12345"})
    synced.sensor_tick()
    clock.sleep(20)
    synced.sensor_tick()
    OPEN_CHANNELS.close()
    with black_hole(is_any):
        (request,) = synced.sensor_tick().run_requests or ()
        assert synced.launch(SYNC, run_config=request.run_config).success
        synced.assert_equal_to_the_org()


@contextmanager
def connect_for_in_a_black_hole(warehouse: Warehouse) -> Iterator[OrgConnection]:
    """Answers come as soon as the org is opened."""
    with ExitStack() as opened:
        with black_hole(is_any):
            org = opened.enter_context(open_org(warehouse, load_settings()))
        yield org


def test_a_warehouse_that_is_nobodys_yet_is_not_opened_without_a_login(
    synced: EmulatedPipeline, tmp_path: Path
) -> None:
    with (
        unanswered_at_most(UnansweredTime(BEGINNING_SECONDS)),
        black_hole(is_any),
        pytest.raises(OrgUnavailable),
        open_org(Warehouse(str(tmp_path / "new")), load_settings()),
    ):
        pass


def test_who_is_not_in_a_hurry_waits_for_the_login(synced: EmulatedPipeline) -> None:
    with (
        black_hole(is_any),
        pytest.raises(OrgUnavailable),
        open_org(Warehouse(str(synced.warehouse)), load_settings()),
    ):
        pass


def test_nothing_is_read_of_another_org_that_answers_a_later_login_of_a_run_that_began_without_one(
    synced: EmulatedPipeline, make_pipeline: Callable[..., EmulatedPipeline]
) -> None:
    make_pipeline("Account", records=1, seed=77)  # the settings lead there from here on
    with (
        unanswered_at_most(UnansweredTime(BEGINNING_SECONDS)),
        connect_for_in_a_black_hole(Warehouse(str(synced.warehouse))) as org,
        unanswered_at_most(UnansweredTime(BEGINNING_SECONDS)),
    ):
        assert org.session.organization_id == synced.org.organization_id
        clock.sleep(FIRST_SECONDS)  # a login host that gave no answer is asked again after it
        with pytest.raises(OrganizationReplaced):
            org.describe("Account")
