"""Hundreds of objects: a first tick that meets them all lands, their copies are made in an order and within bounds, and
new ones need no restart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Barrier
from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.cli.status import show
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.schemas import FIRST_PAUSE_MS, Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets import copies
from sfcdc_assets.orchestration.jobs import SNAPSHOT, SYNC, snapshot
from sfcdc_assets.orchestration.jobs.run_config import config_of
from sfcdc_assets.orchestration.sensors.due import COPY_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.snapshot import pages
from sfcdc_assets.status.status import status_of
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable, Refusal
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.entities.many_objects import create_in_each, object_names, objects
from sfcdc_assets_tests.pipeline.fixtures import served
from sfcdc_assets_tests.simulated_clock import SimulatedClock

pytestmark = pytest.mark.slow

SEED = 13
MANY = 220
Pipelines = Any


@pytest.fixture
def org_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipelines]:
    """Makes a pipeline over an org of so many objects, which are all selected."""
    with pytest.MonkeyPatch.context() as patch:
        opened = []

        def make(count: int, **settings: Any) -> EmulatedPipeline:
            folder = tmp_path / "org"
            time = SimulatedClock(None, runs=True)
            org = EmulatedOrg(folder, seed=SEED, clock=time, objects=objects(count), settings=OrgSettings(**settings))
            org.selected_entities = object_names(count)
            opened.append(served(org, folder, patch))
            return opened[-1].__enter__()

        yield make
        for each in reversed(opened):
            each.__exit__(None, None, None)


def landed(pipeline: EmulatedPipeline) -> list[int]:
    return sorted(event["position"] for event in pipeline.scan("raw_events"))


def known_schemas(pipeline: EmulatedPipeline) -> Table:
    table = Table.open(Warehouse(str(pipeline.warehouse)), "schemas")
    assert table is not None
    return table


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the org's REST resources that are asked for, and which objects' copies are begun."""
    found: list[str] = []
    request = OrgSession.request

    def noted(session: OrgSession, method: str, path: str, **options: Any) -> Any:
        query = re.search(r" FROM (\w+)", str(options.get("json")))
        found.append(f"copy {query[1]}" if query and path == "jobs/query" else f"{method} {path}")
        return request(session, method, path, **options)

    monkeypatch.setattr(OrgSession, "request", noted)
    return found


def test_a_tick_that_meets_hundreds_of_new_entities_lands_them_with_a_handful_of_requests_and_commits(
    org_of: Pipelines, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_SAMPLE_ROWS", "10")
    pipeline = org_of(MANY)
    create_in_each(pipeline.org, object_names(MANY), 2)
    result = pipeline.sensor_tick()
    assert landed(pipeline) == list(range(1, 2 * MANY + 1))
    (added,) = result.dynamic_partitions_requests
    assert list(added.partition_keys) == object_names(MANY)
    assert [request.job_name for request in result.run_requests or ()] == [ASSETS.name(SNAPSHOT)]
    assert len(asked) < 20, "no object is described: the snapshot that it needs does that"
    assert known_schemas(pipeline).version <= 1 + MANY // 100 + 1
    assert known_schemas(pipeline).count() == MANY
    reported = [
        event for event in result.asset_events if isinstance(event, dg.AssetMaterialization) and event.partition
    ]
    assert len(reported) == MANY
    last = next(event for event in reported if event.partition == object_names(MANY)[-1])
    assert last.metadata["rows"].value == last.metadata["events_landed"].value == 2
    sample = last.metadata["sample"]
    assert isinstance(sample, dg.TableMetadataValue)
    assert [row.data["position"] for row in sample.records] == [2 * MANY, 2 * MANY - 1], "the newest first"


def test_schemas_that_cannot_be_had_keep_no_event_from_landing_and_are_the_only_ones_asked_for_again(
    org_of: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = org_of(MANY)
    create_in_each(pipeline.org, object_names(MANY))
    fetched: list[int] = []
    get = PubSubConnection.get_schemas

    def counted(connection: PubSubConnection, schema_ids: Sequence[str]) -> dict[str, str]:
        fetched.append(len(schema_ids))
        if len(fetched) == 2:
            raise PubSubUnavailable(Refusal("GetSchema", schema_ids[0], "UNAVAILABLE", "", "", "", ""))
        return get(connection, schema_ids)

    monkeypatch.setattr(PubSubConnection, "get_schemas", counted)
    pipeline.sensor_tick()
    assert landed(pipeline) == list(range(1, MANY + 1))
    assert fetched == [100, 100, 20]
    assert known_schemas(pipeline).count() == MANY - 100
    clock.sleep(FIRST_PAUSE_MS / 1000)
    create_in_each(pipeline.org, object_names(MANY))
    pipeline.sensor_tick()
    assert fetched == [100, 100, 20, 100]
    assert known_schemas(pipeline).count() == MANY


def test_of_schemas_only_those_that_came_since_are_read(org_of: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = org_of(3)
    create_in_each(pipeline.org, object_names(2))
    pipeline.sensor_tick()
    warehouse, read = Warehouse(str(pipeline.warehouse)), []
    assert len(Schemas(warehouse).of_entity("Object_000__c")) == 1
    read_files = Table.read_files

    def noted(table: Table, paths: Sequence[str], columns: Sequence[str]) -> Any:
        if table.name == "schemas":
            read.append(len(paths))
        return read_files(table, paths, columns)

    monkeypatch.setattr(Table, "read_files", noted)
    monkeypatch.setattr(Table, "rows", lambda *_, **__: pytest.fail("the whole table is read"))
    create_in_each(pipeline.org, object_names(3)[2:])
    pipeline.sensor_tick()
    assert len(Schemas(warehouse).of_entity("Object_002__c")) == 1
    assert read == [1]


def steps(run: Any) -> list[str]:
    """The entities whose copies were completed."""
    return [
        event.partition
        for event in run.all_events
        if event.is_step_materialization and event.asset_key.path[-1] == "snapshot"
    ]


def as_the_sensor(**config: Any) -> dict[str, Any]:
    return {"run_config": config_of("snapshot", channel=CHANNEL, **config)}


def test_small_objects_are_copied_first_and_several_at_a_time(
    org_of: Pipelines, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as may be begun wait for each other here, so that none of them is over before all of them are begun."""
    begun: list[str] = []
    create_job, together = pages.create_job, Barrier(copies.AT_ONCE, timeout=BOUND_SECONDS)

    def begun_together(session: OrgSession, entity: str, *arguments: Any, **options: Any) -> Any:
        begun.append(entity)
        if entity in smallest:
            together.wait()
        return create_job(session, entity, *arguments, **options)

    monkeypatch.setattr(pages, "create_job", begun_together)
    smallest = object_names(6)[::-1][: copies.AT_ONCE]
    pipeline = org_of(6)
    sizes = {name: 12 - 2 * number for number, name in enumerate(object_names(6))}
    pipeline.org.populate(sizes)
    run = pipeline.launch(SNAPSHOT)
    assert run.success
    assert sorted(steps(run)) == object_names(6)
    assert sorted(begun) == object_names(6)
    assert set(begun[: copies.AT_ONCE]) == set(smallest), "each of these may be the first"
    assert sum(path.startswith("GET limits/recordCount") for path in asked) == 1
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


def test_a_run_copies_the_smallest_and_leaves_the_rest_to_the_next_one(
    org_of: Pipelines, asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(snapshot, "MOST_ENTITIES", 2)
    monkeypatch.setattr(copies, "AT_ONCE", 1)
    pipeline = org_of(5)
    names = object_names(5)
    pipeline.org.populate({name: 10 - number for number, name in enumerate(names)})
    run = pipeline.launch(SNAPSHOT, **as_the_sensor(for_seconds=COPY_SECONDS))
    assert sorted(steps(run)) == names[3:]
    assert [each for each in asked if each.startswith("copy")] == [f"copy {names[4]}", f"copy {names[3]}"]
    status = status_of(Warehouse(str(pipeline.warehouse)), load_settings())
    assert list(status.waiting.items()) == [(names[2], 8), (names[1], 9), (names[0], 10)]
    show(status)
    next_ones = f"next: {names[2]}, {names[1]}, {names[0]}."
    assert f"3 entities wait for a snapshot, about 27 records; {next_ones}" in capsys.readouterr().out
    pipeline.sync()
    assert status_of(Warehouse(str(pipeline.warehouse)), load_settings()).waiting == {}
    pipeline.assert_equal_to_the_org()


def test_a_long_copy_pauses_between_two_pages_for_the_stream_and_goes_on(
    org_of: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two objects are small, one has four pages, each of which takes longer than a run has."""
    large, *small = object_names(3)
    monkeypatch.setattr(pages, "rows_per_page", lambda _: 10)
    monkeypatch.setattr(copies, "AT_ONCE", 1)
    read = pages.read_pages

    def slowly(*arguments: Any, **options: Any) -> Iterator[Any]:
        for page in read(*arguments, **options):
            if arguments[1].entity == large:
                clock.sleep(COPY_SECONDS)
            yield page

    monkeypatch.setattr("sfcdc_assets.org_reads.take_snapshot.read_pages", slowly)
    pipeline = org_of(3)
    pipeline.org.populate({large: 35, **dict.fromkeys(small, 5)})
    assert pipeline.quick_tick().jobs == (SNAPSHOT,)
    standing = {each.entity: each for each in status_of(Warehouse(str(pipeline.warehouse)), load_settings()).entities}
    begun = standing[large].snapshot
    assert begun is not None
    assert (begun.complete, begun.rows) == (False, 10)
    with pipeline.org.transaction() as meanwhile:
        meanwhile.update(small[0], ids(pipeline.org, small[0])[0], {"Name": "changed meanwhile"})
        meanwhile.update(large, ids(pipeline.org, large)[30], {"Name": "changed meanwhile"})
    after = pipeline.tick()
    assert set(after.jobs) == {SNAPSHOT, SYNC}
    assert "changed meanwhile" in {row["Name"] for row in pipeline.rows(small[0]).values()}
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    numbers = Table.open(Warehouse(str(pipeline.warehouse)), f"snapshot/{large}")
    assert numbers is not None
    assert max(numbers.scan(["_snapshot"])["_snapshot"].to_pylist()) == 1, "it was not begun again"


def test_copies_wait_while_the_org_has_too_little_of_an_allowance_left(
    org_of: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_SNAPSHOT_RESERVE_PERCENT", "50")
    pipeline = org_of(9, daily_bulk_query_jobs=10)
    names = object_names(9)
    pipeline.org.populate({name: 1 + number for number, name in enumerate(names)})
    outcome = pipeline.sync()[-1]
    assert len(pipeline.said) < 6, "no run is asked for that would copy nothing"
    assert "wait: the org has 5 of 10 Bulk query jobs left today" in outcome.said
    copied = [each.entity for each in status_of(Warehouse(str(pipeline.warehouse)), load_settings()).entities]
    assert copied == names[:5], "the small ones are there, and the stream is applied to them"
    clock.sleep(25 * 3600)
    pipeline.sync()
    assert "9 entities are up to date" in pipeline.sync()[-1].said
    pipeline.assert_equal_to_the_org()


def test_a_new_entity_is_copied_and_followed_without_a_restart(org_of: Pipelines) -> None:
    """One process evaluates the sensor throughout: an object that an administrator selects comes with its first event,
    or without any when the members of the channel are asked for again."""
    pipeline = org_of(4)
    first, second, third, fourth = object_names(4)
    pipeline.org.selected_entities = [first, second]
    pipeline.org.populate(3)
    pipeline.sync()
    pipeline.settled_tick()
    opened = pipeline.partitions()
    assert opened == [first, second]
    pipeline.org.selected_entities = [first, second, third]
    create_in_each(pipeline.org, [third])
    assert pipeline.settled_tick().jobs
    assert pipeline.partitions() == [first, second, third]
    pipeline.org.selected_entities = [first, second, third, fourth]
    clock.sleep(MEMBERS_SECONDS)
    pipeline.settled_tick()
    assert pipeline.partitions() == [first, second, third, fourth]
    create_in_each(pipeline.org, [fourth, first])
    pipeline.settled_tick()
    pipeline.settled_tick()
    pipeline.assert_equal_to_the_org()
