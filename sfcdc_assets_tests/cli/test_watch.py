"""`sfcdc sync --watch`: what Dagster's sensors do, in one process, until it is stopped."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from sfcdc_assets.cli import ticks
from sfcdc_assets.cli.ticks import watch_channels
from sfcdc_assets.emulator.rest.rest_faults import RestFault
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.salesforce.errors import LoginRefused
from sfcdc_assets.sensors.open_channels import OpenChannels
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process

MOST_LOOKS = 250


@pytest.fixture(autouse=True)
def in_this_process() -> object:
    with batches_in_this_process():
        yield


def watch(is_over: Callable[[], bool]) -> list[str]:
    """What it says until it is over."""
    said: list[str] = []
    looks = iter(range(MOST_LOOKS))
    with OpenChannels(forgotten_seconds=math.inf) as channels:
        watch_channels(tell=said.append, channels=channels, is_over=lambda: is_over() or next(looks, None) is None)
    return said


def change(pipeline: EmulatedPipeline, name: str) -> str:
    with pipeline.org.transaction() as one:
        return one.create("Account", {"Name": name})


def test_it_copies_and_follows_and_every_event_is_delivered_once(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    pipeline = make_pipeline("Account", records=3)
    change(pipeline, "first")
    steps = iter([lambda: change(pipeline, "second"), lambda: change(pipeline, "third")])
    expected = 4

    def is_over() -> bool:
        nonlocal expected
        if (pipeline.warehouse / "current_state").exists() and len(pipeline.rows("Account")) == expected:
            step = next(steps, None)
            if step is None:
                return True
            step()
            expected += 1
        return False

    said = watch(is_over)
    pipeline.assert_equal_to_the_org()
    assert said[0] == f"{CHANNEL}: snapshot done"
    assert set(said[1:]) == {f"{CHANNEL}: sync done"}
    assert pipeline.server.meter.total == 3


def test_a_failure_is_said_once_and_what_it_left_undone_is_done_when_it_is_over(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("Account", records=3)
    calls = 0
    tick = ticks.tick_and_run

    def broken(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if 1 < calls < 6:
            raise SfcdcError("The org does not answer.")
        return tick(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ticks, "tick_and_run", broken)
    said = watch((pipeline.warehouse / "current_state").exists)
    assert calls > 6
    assert sum("does not answer" in line for line in said) == 1
    pipeline.assert_equal_to_the_org()


def test_a_setting_that_is_wrong_from_the_beginning_ends_it(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pipeline("Account", records=1)
    monkeypatch.setenv("SFCDC_CLIENT_SECRET", "wr0ng-s3cret")
    with pytest.raises(LoginRefused):
        watch(lambda: False)


def test_runs_that_fail_again_and_again_end_it(make_pipeline: Callable[..., EmulatedPipeline]) -> None:
    pipeline = make_pipeline("Account", records=1)
    pipeline.server.rest_faults.arm(RestFault.GARBAGE, 10_000, path="/jobs/query")
    with pytest.raises(ticks.RunFailed, match="snapshot failed"):
        watch(lambda: False)


@pytest.mark.parametrize("option", ["--json", "--until-caught-up"])
def test_it_goes_without_what_ends(option: str) -> None:
    result = sfcdc("sync", "--watch", option)
    assert result.exit_code == 2
    assert "until interrupted" in result.stderr
