"""Once: neither a repetition nor a loss of memory changes the tables, and an event is paid for once.

Only the last replay id that a subscription brought comes again with the next subscription: nothing but a later event,
or the org's word, shows that all of its events were delivered.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow

SEED = 5


def test_syncing_again_changes_no_table(synced: EmulatedPipeline) -> None:
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[0], {"Name": "once"})
    synced.sync()
    versions = synced.versions()
    landed = len(synced.scan("raw_events"))
    for _ in range(2):
        assert [turn.jobs for turn in synced.sync()] == [()]
    assert synced.versions() == versions
    assert len(synced.scan("raw_events")) == landed


def test_an_instance_that_forgot_everything_resumes_from_the_tables(synced: EmulatedPipeline) -> None:
    """The tables were made with another instance; each sync here is done with one more that is new."""
    snapshots = {entity: synced.table(f"snapshot/{entity}").version() for entity in ("Account", "Contact")}
    for name in ("first", "second"):
        with synced.org.transaction() as one:
            one.update("Contact", ids(synced.org, "Contact")[0], {"Title": name})
            one.create("Account", {"Name": name})
        with instance_in_memory() as instance:
            synced.instance = instance
            synced.sync()
            synced.assert_equal_to_the_org()
    assert {entity: synced.table(f"snapshot/{entity}").version() for entity in snapshots} == snapshots
    assert synced.server.meter.more_than_once() == {2: 2}, "the last one of the first sync"


def test_a_removed_dagster_home_is_not_missed(
    synced: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    for name in ("with a home", "with another"):
        home.mkdir()
        with synced.org.transaction() as one:
            one.update("Account", ids(synced.org, "Account")[0], {"Name": name})
        result = CliRunner().invoke(app, ["sync", "--until-caught-up"])
        assert result.exit_code == 0, result.stderr
        assert any(home.iterdir())
        shutil.rmtree(home)
        synced.assert_equal_to_the_org(["Account"])
    assert synced.server.bus.last_number == 2
    assert synced.server.meter.more_than_once() == {1: 2}, "the last one of the first sync"


def test_every_event_is_delivered_once_over_many_ticks(synced: EmulatedPipeline) -> None:
    print(f"seed {SEED}")
    traffic = TrafficGenerator(synced.org, SEED, bus=synced.server.bus)
    for _ in range(3):
        traffic.run(events=130)
        synced.quick_tick()
        traffic.run(events=20)
    synced.tick()  # waits for the end of the last transaction
    synced.assert_equal_to_the_org()
    assert synced.server.meter.total == synced.server.bus.last_number
    assert synced.server.meter.more_than_once() == {}


def test_an_event_published_twice_changes_nothing(synced: EmulatedPipeline) -> None:
    """The second copy has the same event id and a new replay id; what came in between must not be undone."""
    account = ids(synced.org, "Account")[0]
    synced.server.faults.arm(Fault.DUPLICATE, after=1)
    for name in ("first", "second", "third"):
        with synced.org.transaction() as one:
            one.update("Account", account, {"Name": name})
        if name == "second":
            synced.sync()
            assert synced.rows("Account")[account]["Name"] == "second"
    synced.sync()
    assert synced.server.bus.last_number == 4
    synced.assert_equal_to_the_org()


def test_a_copy_that_comes_in_a_later_poll_changes_nothing(synced: EmulatedPipeline) -> None:
    account = ids(synced.org, "Account")[0]
    synced.server.faults.arm(Fault.DUPLICATE, after=2)
    for name in ("first", "second"):
        with synced.org.transaction() as one:
            one.update("Account", account, {"Name": name})
    synced.sync()
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[1], {"Name": "lets the copy follow"})
    synced.sync()
    assert synced.server.bus.last_number == 4
    assert synced.rows("Account")[account]["Name"] == "second"
    synced.assert_equal_to_the_org()
