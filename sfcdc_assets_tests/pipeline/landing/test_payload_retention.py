"""Payloads past their retention go, everything else stays, and all can be rebuilt without them."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.payload_retention import drop_payloads, droppable
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, Rows, ids
from sfcdc_assets_tests.pipeline.story import ledger

pytestmark = pytest.mark.slow

DAYS = 10
POLL_EVERY_DAYS = 2
"""Often enough for the channel to keep its place."""


def ahead() -> int:
    """A moment at which what has been landed so far is past its retention."""
    return clock.now_ms() + DAYS * 86_400_000


def payloads(pipeline: EmulatedPipeline) -> dict[int, bool]:
    """Position -> whether the event has its payload."""
    return {row["position"]: row["payload"] is not None for row in pipeline.scan("raw_events")}


def without_payloads(pipeline: EmulatedPipeline) -> list[dict[str, Any]]:
    rows = [{**row, "payload": None} for row in pipeline.scan("raw_events")]
    return sorted(rows, key=lambda row: row["position"])


def change(pipeline: EmulatedPipeline, value: str) -> None:
    with pipeline.org.transaction() as one:
        for entity in ("Account", "Contact"):
            one.update(entity, ids(pipeline.org, entity)[0], {"Phone": value, "Description": value})
    with pipeline.org.transaction() as one:  # of their own, or they might be merges and be read back
        for entity in ("Account", "Contact"):
            one.delete(entity, ids(pipeline.org, entity)[1])  # the oldest have no children


def watermarks(warehouse: Warehouse) -> set[int]:
    found = [Snapshots.open(warehouse, entity) for entity in ("Account", "Contact")]
    return {snapshot.complete().position for snapshot in found if snapshot and (snapshot.complete() is not None)}


def test_old_payloads_go_once_a_snapshot_in_the_tables_stands_for_them(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(str(synced.warehouse))
    change(synced, "1")
    synced.server.faults.arm(Fault.GARBLED_HEADER)
    change(synced, "2")
    synced.sync()
    landed = without_payloads(synced)
    (kept,) = synced.scan("quarantine")
    assert kept["payload"]
    assert all(payloads(synced).values())
    assert min(watermarks(warehouse)) == 0, "of one of the two nothing may go yet"
    assert drop_payloads(warehouse, 3, clock.now_ms()) == [], "too young"

    for _ in range(DAYS // POLL_EVERY_DAYS):
        clock.sleep(POLL_EVERY_DAYS * 86_400)
        synced.sync()
    assert all(payloads(synced).values()), "for ever by default"
    monkeypatch.setenv("SFCDC_PAYLOAD_RETENTION_DAYS", "3")
    synced.sync()
    assert "payloads past their retention are dropped" in synced.said
    assert droppable(warehouse, 3, clock.now_ms()) == []

    assert not any(payloads(synced).values())
    assert without_payloads(synced) == landed
    assert [(row["payload"], row["error"]) for row in synced.scan("quarantine")] == [(None, kept["error"])]
    assert watermarks(warehouse) == {landed[-1]["position"]}

    change(synced, "3")
    synced.sync()
    synced.assert_equal_to_the_org()
    assert droppable(warehouse, 3, ahead()) == [], "behind the watermark nothing goes"
    tables = {name: values(synced.rows(name)) for name in ("Account", "Contact")}
    description = CliRunner().invoke(app, ["rebuild", "--entity", "Account", "--entity", "Contact"])
    assert description.exit_code == 0, description.stderr
    for name, rows in tables.items():
        assert values(synced.rows(name)) == rows, "a version may begin at the snapshot now"
    assert [entry for entry in ledger(synced) if entry["status"] == "open"] == []

    RawEvents.open(warehouse).drop_payloads("Account", CHANNEL, 100)
    shutil.rmtree(synced.warehouse / "current_state" / "Account")
    synced.sync()
    synced.assert_equal_to_the_org()
    found = [entry for entry in ledger(synced, "Account") if entry["record_id"] != "*"]
    assert {(entry["reason"], entry["status"]) for entry in found} == {("undecodable_payload", "healed")}
    assert "was dropped after its retention" in found[0]["detail"], "were one missing all the same, it is said"


def values(rows: Rows) -> Rows:
    """The rows without what is said of their versions."""
    of_row = ("_is_deleted", "_deleted_reason", "_in_doubt")
    return {
        key: {name: value for name, value in row.items() if name in of_row or not name.startswith("_")}
        for key, row in rows.items()
    }
