"""One org, read by both protocols: the same tables, row for row; and one warehouse that changes between the two."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.header import read_header
from sfcdc_assets.lake.tables.lost_checkpoints import known_losses
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.pipeline.memory_folder import memory_folder
from sfcdc_assets_tests.pipeline.simulation import simulated_history
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import (
    with_roots_read_once,
    with_schemas_read_once,
    without_spark,
)
from sfcdc_assets_tests.pipeline.simulation.checks import Checks
from sfcdc_assets_tests.pipeline.simulation.history_plan import plan_of
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of

PUBSUB, COMETD = "pubsub", "cometd"
LAYERS = ("text_fields", "current_state", "history", "gap_reconciliation", "snapshot")
OF_THE_WIRE = {"payload", "replay_id", "error", "detail"}
OF_CHANCE = {"attempts", "last_attempt_at", "last_error"}
"""Of reads that failed: the org fails so many, whoever reads."""
OF_OUR_CLOCK = {"received_at", "_read_at", "_asked_at", "opened_at", "healed_at", "_entry"}
SEEDS = (2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (6, 20, 21, 22)))
SWITCHED = (3, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (9, 23, 24, 25)))


class Header(NamedTuple):
    """What distinguishes events in any form."""

    transaction_key: str
    sequence_number: int
    change_type: str
    commit_number: int
    record_ids: tuple[str, ...]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with memory_folder(tmp_path) as made:
        yield made


@contextmanager
def reading_over(
    simulated: simulated_history.SimulatedHistory, transport: str, patch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A process of the pipeline of that history with this protocol."""
    patch.setenv("SFCDC_TRANSPORT", transport)
    with simulated.process():
        yield


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in some order of their own, without what is the wire's or was read from our clock."""
    return sorted(
        repr({name: value for name, value in sorted(row.items()) if name not in OF_THE_WIRE | OF_OUR_CLOCK | OF_CHANCE})
        for row in rows
    )


def tables_of(warehouse: Warehouse) -> Mapping[str, list[str]]:
    names = ["raw_events", "quarantine"]
    for layer in LAYERS:
        names += [f"{layer}/{entity}" for entity in warehouse.entities(layer)]
    return {name: comparable(rows_of(warehouse, name)) for name in names}


@pytest.mark.parametrize("seed", SEEDS)
def test_both_protocols_give_the_same_tables_row_for_row(
    seed: int, folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_roots_read_once(monkeypatch)
    with_schemas_read_once(monkeypatch)
    without_spark(monkeypatch, Random(seed))
    plan = plan_of(seed)
    # A hidden field that is named as changed is null in Avro, and not so in JSON: its record is read back.
    plan = replace(plan, settings=replace(plan.settings, hidden_fields_in_bitmaps=False))
    with ExitStack() as stack:
        first = stack.enter_context(
            simulated_history.opened(plan, folder / PUBSUB, tmp_path_factory.mktemp("authority"))
        )
        second = simulated_history.SimulatedHistory(
            plan, first.org, first.clock, first.server, Warehouse(str(folder / COMETD)), None
        )
        stack.enter_context(reading_over(first, PUBSUB, monkeypatch))
        stack.enter_context(reading_over(second, COMETD, monkeypatch))
        for steps in plan.steps:
            first.step(steps)
            for simulated in (first, second):
                simulated.sync()
        wanted, found = tables_of(first.warehouse), tables_of(second.warehouse)
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert found[name] == wanted[name], name
    forms = [{row["payload"][:1] == b"{" for row in rows_of(each.warehouse, "raw_events")} for each in (first, second)]
    assert forms == [{False}, {True}]
    assert schemas_of(second.warehouse) == schemas_of(first.warehouse)


def schemas_of(warehouse: Warehouse) -> set[tuple[str, str]]:
    return {(row["schema_id"], row["schema_json"]) for row in rows_of(warehouse, "schemas")}


@pytest.mark.parametrize("has_uuids", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("seed", SWITCHED)
def test_a_warehouse_whose_protocol_changes_goes_on_as_if_it_had_not(
    seed: int,
    has_uuids: bool,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Positions go on, no event is landed twice, every entity is read again, history tells every moment."""
    with_roots_read_once(monkeypatch)
    with_schemas_read_once(monkeypatch)
    without_spark(monkeypatch, Random(seed))
    plan = plan_of(seed)
    with simulated_history.opened(plan, folder, tmp_path_factory.mktemp("authority")) as simulated:
        simulated.org.settings = replace(simulated.org.settings, cometd_event_uuids=has_uuids)
        for number, steps in enumerate(plan.steps):
            with reading_over(simulated, (PUBSUB, COMETD)[number % 2], monkeypatch):
                simulated.step(steps)
                if number == len(plan.steps) - 1:
                    simulated.give_everything_back()  # what is off its channel is not read again
                simulated.sync()
        Checks(simulated).all()
        rows, published = rows_of(simulated.warehouse, "raw_events"), Counter(headers_published(simulated))
    landed = Counter(Header(*(row[name] for name in Header._fields[:-1]), tuple(row["record_ids"])) for row in rows)
    assert landed <= published, "nothing is landed twice"
    assert {row["payload"][:1] == b"{" for row in rows} == {False, True}
    last = RawEvents.open(simulated.warehouse).checkpoint(plan.channel)
    assert last.transport == (PUBSUB, COMETD)[(len(plan.steps) - 1) % 2]
    monkeypatch.setenv("SFCDC_CHANNELS", plan.channel)
    (channel,) = status_of(simulated.warehouse, load_settings()).channels
    assert (channel.transport, channel.replay_id) == (last.transport, (last.resume.replay_id or b"").hex())
    losses = known_losses(simulated.warehouse, plan.channel)
    assert len(losses) == len(plan.steps) - 1
    assert all(loss.is_bridged and "was read over" in loss.checkpoint.reason for loss in losses)


def headers_published(simulated: simulated_history.SimulatedHistory) -> Iterator[Header]:
    """Of the readable events of the channel, copies included."""
    bus = simulated.server.bus
    for event in bus.read(set(simulated.org.definitions), after=0, max_events=10**6, max_bytes=10**9).events:
        with suppress(HeaderError):
            head = read_header(event.payload, json.loads(bus.schema_json(event.schema_id) or ""))
            change_type = str(head.change_type)
            yield Header(head.transaction_key, head.sequence_number, change_type, head.commit_number, head.record_ids)
