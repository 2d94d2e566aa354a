"""A warehouse behind the S3 API, of a server that others wrote: what holds in a folder holds there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.apply import attempt
from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import ENTITY as ALL_OF_IT
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.pipeline.apply.many_entities import CHANNEL, Counts, Entities, catch_up
from sfcdc_assets_tests.pipeline.commits import Died, another_memory, before_commit, die
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import versions_of
from sfcdc_assets_tests.pipeline.stores.s3_server import BUCKET, S3Server, s3_server
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow
from sfcdc_assets_tests.store_login import log_in

__all__ = ["no_settings_but_the_tests_own"]

pytestmark = pytest.mark.slow

COMMITS = (1, 3, 5)
"""Before which of a batch's five something happens."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server of the S3 API on loopback, in memory, with one bucket."""
    with s3_server() as served:
        yield served


@pytest.fixture
def store(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A warehouse of the test's own in the store, whose settings are in the environment."""
    log_in(server.environment, monkeypatch)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def pipeline(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    """Day zero of an org, in the store."""
    with quiet(tmp_path, monkeypatch, warehouse=store) as opened:
        opened.sync()
        yield opened


def change(pipeline: QuietPipeline, text: str) -> None:
    for record_id in pipeline.ids()[:3]:
        pipeline.update(record_id, Name=f"{text} {record_id}", Description=f"{text} " * 200)
    pipeline.clock.advance(1_000)


def change_and_apply(pipeline: QuietPipeline, text: str) -> None:
    change(pipeline, text)
    pipeline.catch_up()


@pytest.mark.parametrize("name", ["a b", "a'b", "100%", "ünï 日本", "a+b*c", "a&b=c;d"])
def test_a_root_of_any_characters_that_are_not_refused_is_found_again(store: str, name: str) -> None:
    warehouse = Warehouse(f"{store}/{name}")
    warehouse.check_writable()
    assert not warehouse.entities("gap_reconciliation")
    ledger = Ledger.open_or_create(warehouse, ENTITY)
    ledger.note([NewSuspect(ALL_OF_IT, Reason.DRIFT, 1, "an audit")], CHANNEL, 1, 0)
    (suspect,) = Ledger.open_or_create(warehouse, ENTITY).open_suspects(of_the_entity=True)
    assert suspect.reason is Reason.DRIFT
    assert warehouse.entities("gap_reconciliation") == (ENTITY,)


def test_snapshot_changes_and_a_rebuild_end_with_the_orgs_rows(pipeline: QuietPipeline) -> None:
    change_and_apply(pipeline, "first")
    with pipeline.org.transaction() as work:
        work.delete(ENTITY, pipeline.ids()[0])
    change_and_apply(pipeline, "second")
    pipeline.assert_equal()
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before
    assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))


@pytest.mark.parametrize("number", [COMMITS[0], *(pytest.param(at, marks=pytest.mark.soak) for at in COMMITS[1:])])
def test_of_two_memories_one_wins_and_the_other_redoes_and_nothing_is_lost(
    pipeline: QuietPipeline, number: int
) -> None:
    def other() -> None:
        with another_memory():
            change_and_apply(pipeline, "other's")

    change(pipeline, "own")
    with before_commit(number, other) as commits:
        pipeline.catch_up()
    assert commits.happened_at is not None
    pipeline.catch_up()
    pipeline.assert_equal()
    assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))


@pytest.mark.parametrize("number", [COMMITS[0], *(pytest.param(at, marks=pytest.mark.soak) for at in COMMITS[1:])])
def test_a_process_that_dies_between_a_data_file_and_its_commit_changes_nothing_that_is_true(
    pipeline: QuietPipeline, number: int
) -> None:
    change(pipeline, "dying")
    with pytest.raises(Died), before_commit(number, die):
        pipeline.catch_up()
    with another_memory():
        pipeline.catch_up()
        pipeline.assert_equal()
        pipeline.clock.advance(30 * 86_400_000)
        done = maintain(pipeline.warehouse, Retention(7), pipeline.clock())
        assert not [each.problem for each in done if each.problem]
        pipeline.assert_equal()


def test_one_run_applies_the_changes_of_some_of_many_entities(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned and committed side by side; the states of all are then known without a table being opened."""
    without_spark(monkeypatch, Random(3))
    monkeypatch.setattr(attempt, "AT_ONCE", 4)
    entities = Entities(Warehouse(store), [f"Entity{number}__c" for number in range(10)], 5)
    entities.day_zero()
    catch_up(entities, None)  # type: ignore[arg-type]
    names, entities.names = entities.names, entities.names[:6]
    entities.land(1)
    entities.names = names
    catch_up(entities, None)  # type: ignore[arg-type]
    assert entities.differences() == []
    channels, opened = dict.fromkeys(names, CHANNEL), Counts()
    with another_memory():
        states = entity_states(entities.warehouse, channels, 0, NOTHING_PRIVATE)
        assert [state.has_work for state in states] == [False] * len(names)
        with opened.counted():
            assert entity_states(entities.warehouse, channels, 0, NOTHING_PRIVATE) == states
    assert opened.opens == len(["raw_events"])
