"""Objects that a file says something of: how often they are asked, for which fields, and for which records."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.covered_time import CoveredTime
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import go_on, story

pytestmark = pytest.mark.slow

SEED = 79
FILES = {
    "Case": "seconds = 60",
    "Lead": 'fields = ["LastName", "Company"]',
    "Opportunity": 'where = "CreatedDate >= {since}"\ncount_hours = 2',
    "Task": "compare_hours = 5",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Objects that were copied by their files; of opportunities those of the last year."""
    print(f"seed {SEED}")
    folder = tmp_path_factory.mktemp("files")
    with story(folder, ["Account"], records=12, seed=SEED) as pipeline, pytest.MonkeyPatch.context() as patch:
        created = sorted(int(each["CreatedDate"] or 0) for each in pipeline.org.records("Opportunity"))
        since = f"{datetime.fromtimestamp(created[6] / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
        files = folder / "polled_objects"
        files.mkdir()
        for entity, text in FILES.items():
            (files / f"{entity}.toml").write_text(text.format(since=since))
        settings_of_files(patch, pipeline)
        pipeline.sync()
        yield pipeline


def settings_of_files(patch: pytest.MonkeyPatch, pipeline: EmulatedPipeline) -> None:
    patch.setenv("SFCDC_CHANNELS", "none")
    patch.setenv("SFCDC_POLL", "Case, Lead, Opportunity, Task")
    patch.setenv("SFCDC_POLL_OBJECTS", str(pipeline.warehouse.parents[1] / "polled_objects"))


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    go_on(shared, monkeypatch)
    settings_of_files(monkeypatch, shared)
    shared.org.clock.sleep(4000)
    return shared


def change(pipeline: EmulatedPipeline, *entities: str) -> None:
    """Change a record of each."""
    with pipeline.org.transaction() as work:
        for entity in entities:
            work.update(entity, ids(pipeline.org, entity)[-1], {"Description": str(pipeline.org.clock())})


def test_an_object_with_an_interval_of_its_own_is_asked_at_it_and_others_at_theirs(org: EmulatedPipeline) -> None:
    with connect(load_settings()) as connected:
        reader = PolledReader(Warehouse(str(org.warehouse)), connected)
        change(org, "Case", "Task")  # an object that has been quiet for long is asked less often than at its interval
        reader.land(TICK)
        read: Counter[str] = Counter()
        for _ in range(8):
            change(org, "Case", "Task")
            org.org.clock.sleep(100)
            read.update(entity for entity, rows in reader.land(TICK).events.items() if rows)
    assert read["Case"] == 8
    assert read["Task"] <= 2, "it is asked once in 900 seconds, with all others"


def test_each_poll_of_an_object_begins_as_far_back_as_its_file_says(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a transaction of 25 minutes has changed, in an org that does not say what is open."""
    org.sync()
    files = tmp_path / "of_its_own"
    shutil.copytree(load_settings().poll_objects, files)
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(files))
    monkeypatch.setattr(CoveredTime, "ask", lambda *_: 0)

    def is_seen() -> bool:
        first, second = ids(org.org, "Task")[:2]
        late = org.org.long_transactions.begin()
        late.update("Task", first, {"Description": f"late {org.org.clock()}"})
        org.org.clock.sleep(1500)
        with org.org.transaction() as work:
            work.update("Task", second, {"Description": f"in time {org.org.clock()}"})
        org.org.clock.sleep(60)
        org.sync()
        late.commit()
        org.org.clock.sleep(60)
        org.sync()
        expected = next(each for each in org.org.records("Task") if each["Id"] == first)["Description"]
        return bool(org.rows("Task")[first]["Description"] == expected)

    assert not is_seen(), "polls begin ten minutes before the last one"
    (files / "Task.toml").write_text("compare_hours = 500\nreread_minutes = 30")
    assert is_seen()


def test_an_object_whose_fields_are_named_has_these_columns_alone(org: EmulatedPipeline) -> None:
    last = ids(org.org, "Lead")[-1]
    with org.org.transaction() as work:
        work.update("Lead", last, {"Company": "Another", "Description": "in no column"})
    org.sync()
    row = org.rows("Lead")[last]
    assert {name for name in row if not name.startswith("_")} == {"Id", "LastName", "Company"}
    assert row["Company"] == "Another"


def test_records_outside_of_a_condition_are_in_no_table_and_are_not_looked_for(org: EmulatedPipeline) -> None:
    every = sorted(org.org.records("Opportunity"), key=lambda each: int(each["CreatedDate"] or 0))
    outside, inside = [str(each["Id"]) for each in every[:6]], [str(each["Id"]) for each in every[6:]]
    assert org.rows("Opportunity").keys() == set(inside)
    with org.org.transaction() as work:
        for each in (outside[0], inside[0]):
            work.update("Opportunity", each, {"Description": "changed"})
        work.hard_delete("Opportunity", inside[1])
        work.hard_delete("Opportunity", outside[1])
    org.org.clock.sleep(3 * 3600)  # by its file it is counted every two hours
    for _ in range(2):
        org.sync()
        org.org.clock.sleep(1000)
    rows = org.rows("Opportunity")
    assert rows.keys() == set(inside)
    assert rows[inside[0]]["Description"] == "changed"
    assert rows[inside[1]]["_is_deleted"], "it was deleted for good, and counted within its hours"
    assert sfcdc("verify", "--entity", "Opportunity").exit_code == 0


def test_a_field_that_is_added_to_a_list_gets_its_column_and_its_values_when_the_object_is_described(
    org: EmulatedPipeline,
) -> None:
    file, last = load_settings().poll_objects / "Lead.toml", ids(org.org, "Lead")[-1]
    before, text = set(org.rows("Lead")[last]), file.read_text()
    with org.org.transaction() as work:
        work.update("Lead", last, {"Title": "since before it was named"})

    def later() -> set[str]:
        change(org, "Lead", "Case")  # a run, in which objects are described
        org.org.clock.sleep(90_000)
        org.sync()
        return set(org.rows("Lead")[last]) - before

    try:
        file.write_text('fields = ["LastName", "Company", "title"]')
        assert later() == {"Title"}
        assert org.rows("Lead")[last]["Title"] == "since before it was named"
        file.write_text('fields = ["LastName", "Company"]')
        assert later() == {"Title"}, "a column that is there is read on"
        file.unlink()
        assert later() > {"Title", "Description"}
    finally:
        file.write_text(text)
    org.assert_equal_to_the_org(["Lead"])
