"""`sfcdc sync --watch`: what Dagster's sensors do, in one process, until it is stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.apply.apply_changes import Applier, ToApply
from sfcdc_assets.cli.local_dagster import channel_turn, housekeeping
from sfcdc_assets.cli.local_dagster.drive import SeveralFailures, sync_channels, watch_channels
from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.errors import StoreUnavailable
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import LoginRefused
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process

pytestmark = pytest.mark.slow

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
        watch_channels(report=said.append, channels=channels, is_over=lambda: is_over() or next(looks, None) is None)
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
    due = channel_turn.due

    def broken(*arguments: Any) -> object:
        nonlocal calls
        calls += 1
        if 1 < calls < 6:
            raise SfcdcError("The org does not answer.")
        return due(*arguments)

    monkeypatch.setattr(channel_turn, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("sfcdc_assets.orchestration.sensors.due.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(channel_turn, "due", broken)
    said = watch((pipeline.warehouse / "current_state" / "Account" / "_delta_log").exists)
    assert calls >= 6
    assert sum("does not answer" in line for line in said) == 1
    pipeline.assert_equal_to_the_org()


def test_a_setting_that_is_wrong_from_the_beginning_ends_it(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pipeline("Account", records=1)
    monkeypatch.setenv("SFCDC_CLIENT_SECRET", "wr0ng-s3cret")
    with pytest.raises(LoginRefused):
        watch(lambda: False)


@pytest.mark.parametrize("path", ["/services/oauth2", "/services/data"], ids=["login", "REST"])
def test_an_org_that_is_away_when_it_begins_is_waited_for(
    make_pipeline: Callable[..., EmulatedPipeline], path: str
) -> None:
    pipeline = make_pipeline("Account", records=2)
    pipeline.server.rest_faults.arm(RestFault.UNAVAILABLE, 10**6, path=path)
    looks = 0

    def is_over() -> bool:
        nonlocal looks
        looks += 1
        if looks == 4:
            pipeline.server.rest_faults.disarm()
            change(pipeline, "new")
        return looks > 4 and (pipeline.warehouse / "current_state").exists() and len(pipeline.rows("Account")) == 3

    said = watch(is_over)
    pipeline.assert_equal_to_the_org()
    assert sum("did not answer" in line for line in said) == 1, "it is reported once, not at each try"


def test_channels_that_are_not_there_end_it_where_there_is_no_other(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pipeline("Account", records=1)
    monkeypatch.setenv("SFCDC_CHANNELS", "/event/Gone__e,/event/Also_Gone__e")
    with pytest.raises(SeveralFailures, match="Also_Gone__e"):
        watch(lambda: False)


def test_a_channel_that_is_gone_holds_up_no_other_for_as_long_as_it_is_watched(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("Account", records=2)
    monkeypatch.setenv("SFCDC_CHANNELS", f"/event/Gone__e,{CHANNEL}")
    steps = iter([lambda: change(pipeline, "first"), lambda: change(pipeline, "second")])
    expected = 2

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
    assert len(pipeline.rows("Account")) == 4
    assert sum("Gone__e" in line for line in said) == 1, "it is reported once, not at each try"
    pipeline.assert_equal_to_the_org()


def test_an_error_that_is_not_ours_stays_with_its_channel_for_as_long_as_it_is_watched(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, of_topic = make_pipeline("Account", records=2), "/event/Broken__e"
    monkeypatch.setenv("SFCDC_CHANNELS", f"{of_topic},{CHANNEL}")
    land = ChannelReader.land

    def broken(reader: ChannelReader, timeouts: PollTimeouts) -> LandingReport:
        if reader._channel == of_topic:
            raise ZeroDivisionError("of the test")
        return land(reader, timeouts)

    monkeypatch.setattr(ChannelReader, "land", broken)
    change(pipeline, "new")
    said = watch(lambda: (pipeline.warehouse / "current_state").exists() and len(pipeline.rows("Account")) == 3)
    assert len(pipeline.rows("Account")) == 3
    assert sum("ZeroDivisionError" in line for line in said) == 1


@pytest.mark.parametrize("what", ["the views", "payloads"])
def test_what_is_done_beside_the_channels_ends_nothing_when_it_cannot_be_found_out_whether_it_is_due(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch, what: str, tmp_path: Path
) -> None:
    pipeline = make_pipeline("Account", records=2)
    monkeypatch.setenv("SFCDC_VIEWS_FILE", str(tmp_path / "views.duckdb"))
    monkeypatch.setenv("SFCDC_PAYLOAD_RETENTION_DAYS", "30")

    def refused(*_: object) -> object:
        raise StoreUnavailable(str(pipeline.warehouse), "SlowDown")

    monkeypatch.setattr(housekeeping, "stand" if what == "the views" else "droppable", refused)
    change(pipeline, "first")
    looks = 0

    def is_over() -> bool:
        nonlocal looks
        looks += 1
        clock.sleep(60)
        if looks == 10:
            change(pipeline, "second")
        return looks > 10 and len(pipeline.rows("Account")) == 4

    said = watch(is_over)
    assert len(pipeline.rows("Account")) == 4
    assert sum("SlowDown" in line for line in said) == 1, "it is reported once, not at each look"
    with pytest.raises(StoreUnavailable):
        sync_channels(pipeline.instance, until_caught_up=True, report=said.append)


def test_runs_that_fail_as_a_whole_again_and_again_end_it(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("Account", records=1)
    pipeline.sync()
    change(pipeline, "one more")

    def lost(applier: Applier, wanted: object) -> None:
        raise RuntimeError("Spark is gone")

    monkeypatch.setattr(channel_turn, "FAILED_RUNS", 3)
    monkeypatch.setattr(channel_turn, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("sfcdc_assets.orchestration.sensors.due.RETRY_SECONDS", 0.0)
    monkeypatch.setattr("sfcdc_assets.orchestration.sensors.due.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Applier, "prepare", lost)
    with pytest.raises(RunFailed, match="Spark is gone"):
        watch(lambda: False)


def test_an_entity_that_fails_again_and_again_ends_nothing(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("Account", "Contact", records=1)
    pipeline.sync()
    change(pipeline, "one more")
    taken = Applier.prepare

    def without_account(applier: Applier, wanted: Sequence[ToApply]) -> dict[str, Any]:
        refused = {each.entity: SfcdcError("Account cannot be written.") for each in wanted if each.entity == "Account"}
        return {**taken(applier, [each for each in wanted if each.entity != "Account"]), **refused}

    monkeypatch.setattr(channel_turn, "FAILED_RUNS", 2)
    monkeypatch.setattr(channel_turn, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("sfcdc_assets.orchestration.sensors.due.RETRY_SECONDS", 0.0)
    monkeypatch.setattr("sfcdc_assets.orchestration.sensors.due.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Applier, "prepare", without_account)
    looks = 0

    def is_over() -> bool:
        nonlocal looks
        looks += 1
        if looks == 5:
            with pipeline.org.transaction() as one:
                one.create("Contact", {"LastName": "Lovelace"})
        return looks > 5 and len(pipeline.rows("Contact")) == 2

    said = watch(is_over)
    assert any("Account cannot be written" in line for line in said)
    assert looks < MOST_LOOKS


@pytest.mark.parametrize("option", ["--json", "--until-caught-up"])
def test_it_goes_without_what_ends(option: str) -> None:
    result = sfcdc("sync", "--watch", option)
    assert result.exit_code == 2
    assert "until interrupted" in result.stderr
