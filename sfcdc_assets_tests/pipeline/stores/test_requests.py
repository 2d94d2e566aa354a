"""What an entity's batch asks of an object store: each request takes some hundredths of a second, and is paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from sfcdc_assets.apply import attempt
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.job_layout import ranges_of
from sfcdc_assets.apply.spark_job import RESULTS, Outcome, PackedBatches, apply_ranges, outcomes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.lake.object_store import BUCKET, ObjectStore, object_store
from sfcdc_assets_tests.pipeline.apply.many_entities import Entities, catch_up
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.store_login import log_in

__all__ = ["no_settings_but_the_tests_own"]

FEW, MANY = 1, 3

MOST_OF_AN_ENTITY = {"HEAD": 53, "GET": 17, "LIST": 9, "PUT": 5}
"""Of a batch of 20 events in two files, in a process that has applied one before: docs/scaling.md adds them up."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store() as store:
        log_in(store.environment, monkeypatch)
        yield store


def in_this_process(_: object, batches: Sequence[EntityBatch]) -> list[Outcome]:
    """What one task of Spark does."""
    done = apply_ranges(PackedBatches.of(batches), iter(ranges_of(batches, 1)))
    return outcomes(batches, pa.Table.from_batches(done, RESULTS))


def requests_of_a_batch(store: ObjectStore, count: int) -> Counter[tuple[str, str]]:
    """Those of the second run over so many entities, each of which has events."""
    entities = Entities(Warehouse(f"s3://{BUCKET}/of{count}"), [f"Entity{number}__c" for number in range(count)], 5)
    entities.day_zero()
    catch_up(entities, None)  # type: ignore[arg-type]
    for _ in range(2):
        entities.land(2)
        before = store.requests
        catch_up(entities, None)  # type: ignore[arg-type]
        found = store.requests - before
    assert entities.differences() == []
    return found


def test_an_entitys_batch_makes_no_more_requests_than_it_needs(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "apply_events", in_this_process)
    few, many = requests_of_a_batch(store, FEW), requests_of_a_batch(store, MANY)
    of_each: Counter[str] = Counter()
    for (kind, _), number in (many - few).items():
        of_each[kind] += number
    found = {kind: number / (MANY - FEW) for kind, number in of_each.items()}
    assert found.keys() <= MOST_OF_AN_ENTITY.keys()
    assert {kind for kind, most in MOST_OF_AN_ENTITY.items() if found.get(kind, 0) > most} == set(), found
