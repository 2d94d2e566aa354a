"""Cuts of polled objects say as of when each of them is, and a past one can be opened by its time."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from sfcdc_assets.consistent_cut import open_cut
from sfcdc_assets.lake.errors import NoCut
from sfcdc_assets.lake.tables.consistent_cuts import cuts
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

OBJECTS = ("Case", "Opportunity")
A_WHILE = timedelta(seconds=30)


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    made = make_pipeline("Account", records=4)
    monkeypatch.setenv("SFCDC_CHANNELS", "none")
    monkeypatch.setenv("SFCDC_POLL", ",".join(OBJECTS))
    return made


def now(pipeline: EmulatedPipeline) -> datetime:
    """The time by the org's clock."""
    return datetime.fromtimestamp(pipeline.org.clock() / 1000, UTC)


def change(pipeline: EmulatedPipeline, entity: str, name: str) -> datetime:
    """Change a record, poll some time later, and return when that was."""
    with pipeline.org.transaction() as work:
        work.update(entity, ids(pipeline.org, entity)[0], {"Description": name})
    pipeline.org.clock.sleep(1000)
    pipeline.sync()
    return now(pipeline)


def descriptions(root: str, entity: str, at: datetime | None = None) -> set[str | None]:
    return set(open_cut(root, at).arrow(entity)["Description"].to_pylist())


def test_a_cut_says_as_of_when_each_polled_entity_is_and_is_found_by_a_past_time(pipeline: EmulatedPipeline) -> None:
    root = str(pipeline.warehouse)
    begun = now(pipeline)
    pipeline.sync()
    copied = open_cut(root).as_of
    assert all(found is not None and begun - A_WHILE < found <= now(pipeline) for found in copied.values())

    first = change(pipeline, "Case", "first")
    after_first = open_cut(root).as_of
    assert {
        entity: first - A_WHILE < found <= first for entity, found in after_first.items() if found
    } == dict.fromkeys(OBJECTS, True)
    second = change(pipeline, "Case", "second")
    assert "second" in descriptions(root, "Case")
    assert descriptions(root, "Case", first).isdisjoint({"second"})
    assert "first" in descriptions(root, "Case", first)
    assert all(found is not None and found <= first for found in open_cut(root, first).as_of.values())
    with pytest.raises(NoCut):
        open_cut(root, begun - timedelta(days=1))

    noted = len(cuts(Warehouse(root), POLLED))
    pipeline.org.clock.sleep(1000)
    pipeline.sync()
    assert len(cuts(Warehouse(root), POLLED)) == noted, "polls that find nothing note no cut"
    as_of = open_cut(root).as_of
    assert all(found is not None and found > second for found in as_of.values()), "and the newest is as of them"

    said = json.loads(sfcdc("cut", "--json").stdout)
    assert {entity: datetime.fromisoformat(found) for entity, found in said["as_of"].items()} == dict(as_of)
    shown = sfcdc("cut", "--at", f"{first:%Y-%m-%dT%H:%M:%S}").stdout
    assert "none yet" not in shown
    assert f"# Case as of {open_cut(root, first).as_of['Case']:%Y-%m-%d %H:%M:%S} UTC" in shown
    asked = "SELECT entity FROM sfcdc_as_of WHERE as_of > TIMESTAMPTZ '{}' ORDER BY 1"
    assert json.loads(sfcdc("sql", "--json", asked.format(second.isoformat())).stdout) == [
        {"entity": entity} for entity in OBJECTS
    ]
    later = now(pipeline) + timedelta(hours=1)
    asked = sfcdc("sql", "--at", later.isoformat(), "SELECT count(*) FROM opportunity")
    assert "Opportunity is polled, and shown as of" in asked.stderr


def test_an_entity_that_could_not_be_polled_stays_as_of_its_last_poll(pipeline: EmulatedPipeline) -> None:
    root = str(pipeline.warehouse)
    pipeline.sync()
    change(pipeline, "Opportunity", "first")
    before = open_cut(root).as_of["Opportunity"]
    pipeline.org.hidden_objects = {"Opportunity"}
    change(pipeline, "Case", "second")
    as_of = open_cut(root).as_of
    assert as_of["Opportunity"] == before
    assert as_of["Case"] is not None
    assert before is not None
    assert before < as_of["Case"]
