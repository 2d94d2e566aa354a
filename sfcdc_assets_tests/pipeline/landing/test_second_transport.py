"""Another protocol and another form of payload land, and are applied, by the same code (see `JsonTransport`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import TICK, until_settled
from sfcdc_assets.streams.delivered_event import ReplayPreset, ReplayStart
from sfcdc_assets_tests.pipeline.memory_folder import memory_folder
from sfcdc_assets_tests.pipeline.simulation import simulated_history
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import with_roots_read_once, without_spark
from sfcdc_assets_tests.pipeline.simulation.checks import Checks, assert_rebuilding_gives_the_same_rows
from sfcdc_assets_tests.pipeline.simulation.history_plan import plan_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream
from sfcdc_assets_tests.streams.json_transport import MOST, JsonTransport

OF_THE_WIRE = ("payload", "replay_id", "received_at")
HISTORIES = (1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (4, 11, 30, 31, 32, 33, 34)))
MENDED = (
    Fault.COMETD_UNKNOWN_CLIENT,
    Fault.COMETD_LOST_COOKIE,
    Fault.COMETD_UNAUTHORIZED,
    Fault.COMETD_BUSY,
    Fault.COMETD_RESET,
    Fault.COMETD_CUT,
)
"""What a reader has nothing to say about."""


@pytest.fixture
def org(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=MOST + 10) as opened:
        yield opened


def over_json(org: Stream, warehouse: str, *breaks: int) -> tuple[ChannelReader, JsonTransport]:
    """A reader of the same channel over the other protocol."""
    transport = JsonTransport(org.org, org.server.bus, breaks)
    connected = replace(org.connected, transport=transport, new_transport=lambda _: transport)
    return ChannelReader(Warehouse(warehouse), connected, CHANNEL, SETTLE), transport


def landed(warehouse: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = RawEvents.open(Warehouse(warehouse)).table.scan().to_pylist()
    return sorted(rows, key=lambda row: row["position"])


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def test_what_is_landed_is_the_same_but_for_the_wire(org: Stream, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "json")
    org.update(*range(MOST + 10))  # one event of many records
    org.siblings(3, 4, 5)  # three events with one replay id
    org.update(6, Site=None, BillingCity="Köln")
    org.poll_until_settled()
    reader, transport = over_json(org, elsewhere, 1)
    reader.land(TICK)
    reader.close()
    pubsub, json_rows = landed(str(org.root)), landed(elsewhere)
    assert without(json_rows, *OF_THE_WIRE) == without(pubsub, *OF_THE_WIRE)
    assert all(row["payload"].startswith(b"{") and row["replay_id"].isdigit() for row in json_rows)
    assert transport.begun[0] == ReplayStart.EARLIEST


def test_a_transaction_of_several_responses_between_which_the_call_breaks_is_whole_or_not_complete(
    org: Stream, tmp_path: Path
) -> None:
    warehouse = str(tmp_path / "json")
    with org.org.transaction() as work:
        for number, account in enumerate(org.accounts):
            work.update("Account", account, {"Phone": str(number)})
    org.update(1, Site="another transaction")
    reader, transport = over_json(org, warehouse, 1)
    checkpoints = []
    for _ in range(4):
        # A transaction that goes on with the next response is landed and not complete.
        reader.land(replace(TICK, quiet=0.0, budget=0.0))
        checkpoints.append(RawEvents.open(Warehouse(warehouse)).checkpoint(CHANNEL))
    keys = [row["transaction_key"] for row in landed(warehouse)]
    one = keys.count(keys[0])
    assert one > MOST
    assert len(keys) == one + 1
    assert all(checkpoint.complete_position == 0 for checkpoint in checkpoints if checkpoint.position <= one)
    assert any(0 < checkpoint.position < one for checkpoint in checkpoints)
    # The org said that there is nothing more, but what it has committed may be published a moment later.
    assert (checkpoints[-1].complete_position, checkpoints[-1].position) == (one, one + 1)
    reader.land(until_settled(SETTLE, TICK))
    settled = RawEvents.open(Warehouse(warehouse)).checkpoint(CHANNEL)
    assert settled.complete_position == settled.position == one + 1
    # Begun again before the last replay id that was taken, whose events came again and were not landed twice.
    first, second = transport.begun
    assert (first.preset, second.preset) == (ReplayPreset.EARLIEST, ReplayPreset.CUSTOM)
    assert transport.delivered > one + 1
    assert [row["position"] for row in landed(warehouse)] == list(range(1, one + 2))


def test_a_refused_replay_id_of_any_protocol_is_answered_with_snapshots_and_never_with_latest(
    org: Stream, tmp_path: Path
) -> None:
    warehouse = str(tmp_path / "json")
    org.update(1)
    reader, _ = over_json(org, warehouse)
    reader.land(TICK)
    reader.drop()
    org.server.bus.expire()
    org.update(2)
    reader, transport = over_json(org, warehouse)
    report = reader.land(TICK)
    assert "you provided was invalid" in (report.lost_checkpoint or "")
    assert [start.preset for start in transport.begun] == [ReplayPreset.CUSTOM, ReplayPreset.EARLIEST]
    assert [row["position"] for row in landed(warehouse)] == [1, 3]


def test_an_event_that_names_no_schema_is_landed_and_no_schema_is_asked_for(org: Stream, tmp_path: Path) -> None:
    warehouse = str(tmp_path / "json")
    org.update(1)
    reader, transport = over_json(org, warehouse)
    asked: list[str] = []

    def schema(schema_id: str) -> str:
        asked.append(schema_id)
        raise AssertionError(schema_id)

    transport.schema = schema  # type: ignore[method-assign]
    transport.names_schemas = False
    reader.land(TICK)
    assert asked == []
    assert [(row["schema_id"], row["entity_name"]) for row in landed(warehouse)] == [("", "Account")]


@pytest.mark.parametrize("seed", HISTORIES)
def test_a_simulated_org_history_over_cometd_gives_the_tables_that_the_org_says(
    seed: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots, gaps, large texts, broken payloads, schema changes and read-backs included, and a session that breaks
    in each round."""
    monkeypatch.setenv("SFCDC_TRANSPORT", "cometd")
    dice, step, answers, steps_begun = (
        Random(f"faults:{seed}"),
        simulated_history.SimulatedHistory.step,
        Counter[str](),
        0,
    )

    def step_and_break(history: simulated_history.SimulatedHistory, steps: int) -> None:
        nonlocal steps_begun
        steps_begun += 1
        if steps_begun == 1:
            # An object that is off its channel for a while has steps within a step: two tokens that are refused with
            # nothing read in between are for a person to mend.
            fault = dice.choice(MENDED)
            answers[fault] += 1
            history.server.faults.arm(fault)
        step(history, steps)
        steps_begun -= 1

    monkeypatch.setattr(simulated_history.SimulatedHistory, "step", step_and_break)
    with_roots_read_once(monkeypatch)
    without_spark(monkeypatch, Random(seed))
    with (
        memory_folder(tmp_path) as folder,
        simulated_history.opened(plan_of(seed), folder, tmp_path_factory.mktemp("authority")) as history,
    ):
        history.live()
        Checks(history).all()
        assert_rebuilding_gives_the_same_rows(history)
        first = {row["payload"][:1] for row in landed(str(folder)) if row["payload"] is not None}
        assert first == {b"{"}
        assert answers.total() - sum(history.server.faults.armed(fault) for fault in MENDED) > 2
