"""Very many events are applied in several batches, each of whole transactions, and nothing else differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.apply import attempt, batch_events
from sfcdc_assets.apply.apply_changes import Applier, ToApply, apply_entity
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.spark_job import Outcome
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.pipeline.apply.many_entities import CHANNEL, Entities
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import quiet
from sfcdc_assets_tests.pipeline.version_checks import in_order
from sfcdc_assets_tests.run_contexts import run_on

NAMES = ("First__c", "Second__c")


class Events:
    """Landed events of one entity: transactions of so many events, in files of so many, with other entities' events
    between transactions. `copies`: the numbers of events that were published twice, each with how many others come
    before the copy."""

    def __init__(self, transactions: Sequence[int], in_a_file: int, copies: Sequence[tuple[int, int]] = ()) -> None:
        keys = [number for number, events in enumerate(transactions) for _ in range(events)]
        order = list(enumerate(keys))
        for number, others in copies:
            order.insert(number + 1 + others, (number % len(keys), keys[number % len(keys)]))
        begun = [max(key for _, key in order[: at + 1]) for at in range(len(order))]
        self.rows = [
            (3 * at + 1 + 5 * begun[at], f"transaction {key}", f"event {number}")
            for at, (number, key) in enumerate(order)
        ]
        self._files = [self.rows[at : at + in_a_file] for at in range(0, len(self.rows), in_a_file)]

    @property
    def ends(self) -> list[int]:
        """Where no transaction is under way, whatever came twice, and something follows."""
        first: dict[str, tuple[int, str]] = {}
        for position, key, event in self.rows:
            first.setdefault(event, (position, key))
        keys = dict(first.values())
        return [
            position
            for position, *_ in self.rows[:-1]
            if not {keys[at] for at in keys if at <= position} & {keys[at] for at in keys if at > position}
        ]

    def files(self, entity: str, channel: str, after: int, up_to: int) -> list[SimpleNamespace]:
        found = [SimpleNamespace(rows=len(f), statistics={"min.position": f[0][0], "max.position": f[-1][0]})
                 for f in self._files if f[-1][0] > after and f[0][0] <= up_to]  # fmt: skip
        Random(1).shuffle(found)
        return found

    def headers(self, entity: str, channel: str, columns: Sequence[str], *, after: int, up_to: int) -> pa.Table:
        rows = [(*row, ["001"]) for row in self.rows if after < row[0] <= up_to]
        Random(2).shuffle(rows)
        types = {"position": pa.int64(), "transaction_key": pa.string(), "event_id": pa.string()}
        schema = pa.schema(types | {"record_ids": pa.list_(pa.string())})
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema).select(columns)

    def until(self, end: int) -> int:
        return sum(position <= end for position, *_ in self.rows)


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=30),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(0, 120),
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=4),
)
def test_a_batch_ends_behind_a_transaction_after_what_is_needed_and_takes_the_most_that_it_may(
    transactions: list[int], in_a_file: int, most: int, least: int, after: int, copies: list[tuple[int, int]]
) -> None:
    events = Events(transactions, in_a_file, copies)
    least, last = max(least, after), events.rows[-1][0]
    end = max(last, least)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_events, "MOST_EVENTS", most)
        found = batch_events.batch_end(cast(RawEvents, events), "A", CHANNEL, after, least, end)
    if found == end:
        return
    assert found > least
    assert found in events.ends
    assert events.until(end) - events.until(after) > most
    taken = events.until(found) - events.until(after)
    if taken > most:  # no transaction ends between what is needed and where the batch should
        needed = [each for each in events.ends if least < each < found]
        assert not needed or found <= min(each for each in events.ends if each > least)


def test_no_batch_is_cut_that_is_small_enough() -> None:
    events = Events([5, 5, 5], 4)
    assert batch_events.batch_end(cast(RawEvents, events), "A", CHANNEL, 0, 0, 10_000) == 10_000


@pytest.fixture
def entities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entities:
    """Two whose day zero is applied, with 60 and 20 events to come."""
    without_spark(monkeypatch, Random(3))
    made = Entities(Warehouse(str(tmp_path / "warehouse")), NAMES, 6)
    made.day_zero()
    for name in NAMES:
        applied(made, name)
    made.names = NAMES[:1]
    made.land(2)
    made.land(3)
    made.names = NAMES
    made.land(2)
    return made


def applied(entities: Entities, name: str) -> Any:
    return apply_entity(run_on(entities.warehouse), ToApply(name, CHANNEL))


def batches_of(entities: Entities, name: str) -> int:
    state = CurrentState.open(entities.warehouse, name)
    assert state is not None
    return state.checkpoint(CHANNEL).batch


@pytest.mark.parametrize(("most", "batches"), [(25, 3), (20, 3), (60, 1)])
def test_what_is_applied_in_several_batches_is_reported_as_one_and_gives_the_same_rows(
    entities: Entities, monkeypatch: pytest.MonkeyPatch, most: int, batches: int
) -> None:
    monkeypatch.setattr(batch_events, "MOST_EVENTS", most)
    before = batches_of(entities, NAMES[0])
    report = applied(entities, NAMES[0])
    assert batches_of(entities, NAMES[0]) - before == batches
    assert (report.events, report.deliveries, report.has_more) == (60, 60, False)
    applied(entities, NAMES[1])
    assert entities.differences() == []


def test_no_event_before_an_entry_about_the_entity_waits_for_it_however_many_batches_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_events, "MOST_EVENTS", 1)
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        record_id = pipeline.ids()[0]
        names = ["one", "two", "three"]
        for name in names:
            pipeline.update(record_id, Name=name)
        pipeline.poll()
        pipeline.server.bus.expire()
        pipeline.catch_up()
        assert (pipeline.rows()[record_id]["Name"], pipeline.rows()[record_id]["_in_doubt"]) == ("three", True)
        pipeline.snapshot()
        pipeline.catch_up()
        reported = sorted((row for row in pipeline.layers()["history"] if row["Id"] == record_id), key=in_order)
        assert [row["Name"] for row in reported if row["_change_type"] == "UPDATE"] == names
        pipeline.assert_equal()


def test_an_entity_with_several_batches_keeps_no_other_waiting(
    entities: Entities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_events, "MOST_EVENTS", 20)
    happened: list[str] = []
    apply = attempt.apply_events

    def noted(spark: Any, some: Sequence[EntityBatch]) -> list[Outcome]:
        happened.extend(f"tasks of {batch.entity}" for batch in some)
        return apply(spark, some)

    monkeypatch.setattr(attempt, "apply_events", noted)
    applier = Applier(run_on(entities.warehouse))
    wanted = {name: ToApply(name, CHANNEL) for name in NAMES}
    for name, prepared in applier.prepare(list(wanted.values())).items():
        applier.commit(wanted[name], prepared)
        happened.append(f"{name} is committed")
    assert happened == [
        *(f"tasks of {NAMES[1]}", f"{NAMES[1]} is committed"),
        *[f"tasks of {NAMES[0]}"] * 3,
        f"{NAMES[0]} is committed",
    ]
    assert entities.differences() == []
