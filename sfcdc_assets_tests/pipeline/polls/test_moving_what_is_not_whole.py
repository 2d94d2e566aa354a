"""An object that gets another channel while its table, or what the user is shown of it, is not all that the org has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

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
