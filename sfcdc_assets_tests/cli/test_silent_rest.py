"""A sync of an org whose REST side takes requests and answers none, while its events come: what has landed is applied.

What a try takes, and the pauses between tries, pass on the simulated clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from sfcdc_assets.apply.catch_up import HEALING_SECONDS
from sfcdc_assets.cli.local_dagster.drive import sync_channels
from sfcdc_assets.orchestration.jobs.started_run import BEGINNING_SECONDS
from sfcdc_assets.orchestration.sensors.channel import REST_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.instance import MOST_SECONDS
from sfcdc_assets.salesforce.tls import TrustedRootsAdapter
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, copied, keep

SECONDS = MOST_SECONDS + REST_SECONDS + BEGINNING_SECONDS + 2 * HEALING_SECONDS + 20.0
"""What the reading, the look, the beginning of a run, its descriptions and its checks wait for the org in all, and a
little."""


@pytest.fixture(autouse=True)
def in_this_process() -> object:
    with batches_in_this_process():
        yield


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(tmp_path_factory.mktemp("first_day") / "org", ("Account",), records=3)


@pytest.fixture
def synced(first_day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """One whose tables equal the org; no process that runs now knows of it."""
    with copied(first_day, tmp_path / "org", monkeypatch) as pipeline:
        yield pipeline


@contextmanager
def black_hole(is_silent: Callable[[str], bool]) -> Iterator[list[str]]:
    """Requests to such addresses are taken and not answered; the tries."""
    tries: list[str] = []
    send = TrustedRootsAdapter.send

    def silent(adapter: TrustedRootsAdapter, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        if not is_silent(str(request.url)):
            return send(adapter, request, **options)
        tries.append(str(request.url))
        clock.sleep(options["timeout"][1])
        raise requests.exceptions.ReadTimeout("no answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrustedRootsAdapter, "send", silent)
        yield tries


def is_no_login(url: str) -> bool:
    return "/services/oauth2/" not in url


def test_what_has_landed_is_applied_by_a_sync_although_the_org_answers_no_request_but_the_login(
    synced: EmulatedPipeline,
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
        with black_hole(is_no_login) as tries:
            began = clock.current().monotonic()
            sync(until_caught_up=False)
            took = clock.current().monotonic() - began
        assert tries
        synced.assert_equal_to_the_org()
        assert took <= SECONDS
