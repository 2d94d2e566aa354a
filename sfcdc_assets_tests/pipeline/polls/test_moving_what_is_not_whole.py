"""An object that gets another channel while its table, or what the user is shown of it, is not all that the org has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sfcdc_assets.apply.apply_changes import apply_entity
from sfcdc_assets.apply.attempt import ToApply
from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import served
from sfcdc_assets_tests.pipeline.stepwise import connected
from sfcdc_assets_tests.pipeline.story import go_on
from sfcdc_assets_tests.simulated_clock import SimulatedClock

pytestmark = pytest.mark.slow

MOVED, STAYS = "Contact", "Account"


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    made = make_pipeline(STAYS, MOVED, records=12)
    monkeypatch.setenv("SFCDC_POLL", MOVED)
    monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "0")
    return made


def of_the_last_half(pipeline: EmulatedPipeline) -> str:
    """A condition that half of the records fulfil."""
    created = sorted(int(each["CreatedDate"] or 0) for each in pipeline.org.records(MOVED))
    since = datetime.fromtimestamp(created[len(created) // 2] / 1000, UTC)
    return f'where = "CreatedDate >= {since:%Y-%m-%dT%H:%M:%SZ}"'


def test_records_outside_of_the_condition_of_a_polled_object_are_read_when_it_gets_into_a_channel(
    pipeline: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(tmp_path))
    (tmp_path / f"{MOVED}.toml").write_text(of_the_last_half(pipeline))
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()
    every = set(ids(pipeline.org, MOVED))
    assert pipeline.rows(MOVED).keys() < every
    pipeline.org.selected_entities = [STAYS, MOVED]
    pipeline.sync()
    assert pipeline.rows(MOVED).keys() == every
    pipeline.assert_equal_to_the_org([MOVED])


def test_an_object_that_gets_out_of_a_channel_has_the_records_of_its_condition_alone(
    pipeline: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(tmp_path))
    pipeline.sync()
    (tmp_path / f"{MOVED}.toml").write_text(of_the_last_half(pipeline))
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()
    sfcdc("accept", "--entity", MOVED)
    pipeline.sync()
    assert sfcdc("verify", "--entity", MOVED).exit_code == 0


def test_what_the_user_is_not_shown_is_not_deleted_when_an_object_gets_another_channel(
    pipeline: EmulatedPipeline,
) -> None:
    pipeline.sync()
    before = pipeline.rows(MOVED)
    pipeline.org.selected_entities = [STAYS]
    pipeline.org.view_all.withdraw(MOVED)
    pipeline.org.clock.sleep(400)
    pipeline.sync()
    gone = {each for each, row in pipeline.rows(MOVED).items() if row["_is_deleted"]}
    assert gone == {each for each, row in before.items() if row["_is_deleted"]}
    print(pipeline.said)


def test_fields_that_were_not_polled_have_their_values_when_an_object_gets_into_a_channel(
    pipeline: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(tmp_path))
    (tmp_path / f"{MOVED}.toml").write_text('fields = ["LastName"]')
    pipeline.org.selected_entities = [STAYS]
    pipeline.sync()
    assert "Description" not in pipeline.rows(MOVED)[ids(pipeline.org, MOVED)[0]]
    pipeline.org.selected_entities = [STAYS, MOVED]
    pipeline.sync()
    pipeline.assert_equal_to_the_org([MOVED])


def test_what_no_stamp_tells_of_is_in_the_table_of_an_object_that_gets_into_a_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [
        replace(each, access=replace(each.access, events=True)) if each.name == "Contract" else each
        for each in whole_org()
    ]
    org = EmulatedOrg(tmp_path / "org", seed=23, clock=SimulatedClock(runs=True), objects=objects)
    org.populate({STAYS: 6, "Contact": 6, "Contract": 6})
    org.selected_entities = [STAYS]
    with served(org, tmp_path / "org", monkeypatch) as pipeline:
        go_on(pipeline, monkeypatch)
        monkeypatch.setenv("SFCDC_POLL", "Contract")
        monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "0")
        pipeline.sync()
        with org.transaction() as work:
            work.set_unstamped("Contract", ids(org, "Contract")[0], {"Status": "Expired"})
        org.selected_entities = [STAYS, "Contract"]
        pipeline.sync()
        pipeline.assert_equal_to_the_org(["Contract"])


def test_a_deleted_record_that_waits_to_be_read_back_is_read_when_its_object_gets_another_channel(
    pipeline: EmulatedPipeline,
) -> None:
    """Counting does not find that it lives: another record was deleted for good."""
    first, second, *_ = ids(pipeline.org, MOVED)
    with pipeline.org.transaction() as work:
        work.delete(MOVED, first)
    pipeline.sync()
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    with pipeline.org.transaction() as work:
        work.undelete(MOVED, first)
    pipeline.org.clock.sleep(3600)
    with pipeline.org.transaction() as work:
        work.update(MOVED, second, {"Description": "the last event"})
    with connected(pipeline) as copy:
        copy.land()
        apply_entity(copy.run_at_once, ToApply(MOVED, CHANNEL))
    assert pipeline.rows(MOVED)[first]["_in_doubt"]
    pipeline.org.selected_entities = [STAYS]
    with pipeline.org.transaction() as work:
        work.hard_delete(MOVED, second)
    pipeline.sync()
    assert not pipeline.rows(MOVED)[first]["_is_deleted"]


def test_no_value_is_hashed_in_a_table_that_has_them_plain_when_its_object_gets_another_channel(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.sync()
    pipeline.org.selected_entities = [STAYS]
    with pipeline.org.transaction() as work:
        work.update(MOVED, ids(pipeline.org, MOVED)[0], {"Description": "read by the move"})
    pipeline.org.clock.sleep(3000)
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_HASH", f"{MOVED}.Description")
        patch.setenv("SFCDC_HASH_KEY", "a key of sixteen characters or more")
        with pytest.raises(RunFailed, match="SFCDC_HASH"):
            pipeline.sync()
    pipeline.sync()
    pipeline.assert_equal_to_the_org([MOVED])
