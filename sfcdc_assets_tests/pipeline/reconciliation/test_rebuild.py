"""Layers rebuilt from what was landed: the same rows, whatever was read from the org meanwhile, and when."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli import rebuild as command
from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.all_versions import open_history
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import ledger

pytestmark = pytest.mark.slow

LAYERS = ("text_fields", "history", "current_state")


def rows(pipeline: EmulatedPipeline, layer: str, entity: str) -> pl.DataFrame:
    """A layer's rows (of `history` all versions) in an order of their own, without the batch that wrote them."""
    is_history = layer == "history"
    table = open_history(str(pipeline.warehouse), entity) if is_history else pipeline.table(f"{layer}/{entity}").scan()
    found = pl.DataFrame(pa.table(table)).drop("_batch", "_first_batch", strict=False)
    keys = ["Id", "record_id", "field", "position", "origin", "_position", "_superseded_at", "_valid_from"]
    return found.sort([name for name in keys if name in found.columns], nulls_last=True)


def rebuilt_to_the_same_rows(pipeline: EmulatedPipeline, entity: str) -> None:
    before = {layer: rows(pipeline, layer, entity) for layer in LAYERS}
    suspects = ledger(pipeline, entity)
    description = CliRunner().invoke(app, ["rebuild", "--entity", entity])
    assert description.exit_code == 0, description.output
    for layer in LAYERS:
        assert_same(layer, before[layer], rows(pipeline, layer, entity))
    assert ledger(pipeline, entity) == suspects, "the ledger is not written again"


def assert_same(layer: str, before: pl.DataFrame, after: pl.DataFrame) -> None:
    """Equal frames; what differs is listed."""
    names = before.columns
    lost = before.join(after.select(names), on=names, how="anti", nulls_equal=True)
    new = after.select(names).join(before, on=names, how="anti", nulls_equal=True)
    assert (lost.height, new.height, after.height) == (0, 0, before.height), f"{layer}: lost {lost}, new {new}"


@pytest.fixture(autouse=True)
def read_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")


def test_versions_before_and_after_records_were_read_back_are_made_again(synced: EmulatedPipeline) -> None:
    org, faults = synced.org, synced.server.faults
    gapped, diffed, plain = ids(org, "Account")[:3]
    for text in ("one", "two"):
        with org.transaction() as work:
            for record_id in (gapped, plain):
                work.update("Account", record_id, {"Phone": text})
            work.update("Account", diffed, {"Description": text * 700})
    synced.sync()
    for round_number in range(2):
        faults.arm(Fault.INTERNAL_ERROR)
        with org.transaction() as work:
            work.update("Account", gapped, {"Phone": f"not told {round_number}"})
        with org.transaction() as work:
            work.update("Account", gapped, {"Site": f"after {round_number}"})
            work.update("Account", plain, {"Site": f"plain {round_number}"})
        synced.sync()
        with org.transaction() as work:
            work.update("Account", gapped, {"Site": f"healed {round_number}"})
        synced.sync()
    synced.assert_equal_to_the_org()
    kinds = rows(synced, "history", "Account").filter(pl.col("Id") == gapped)["_change_type"].to_list()
    assert kinds.count("REFETCH") == 2
    rebuilt_to_the_same_rows(synced, "Account")


def test_history_reaches_back_to_the_first_snapshot_and_dropped_fields_keep_their_values(
    synced: EmulatedPipeline,
) -> None:
    org = synced.org
    first, second = ids(org, "Account")[:2]
    with org.transaction() as work:
        work.update("Account", first, {"Phone": "before the second snapshot"})
    synced.sync()
    org.setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda row: f"R{row['Id']}")
    with org.transaction() as work:
        work.update("Account", second, {"Phone": "brings the new field"})
    synced.sync()
    org.setup.drop_field("Account", "Region__c")
    with org.transaction() as work:
        work.update("Account", second, {"Phone": "after it was dropped"})
    synced.sync()
    synced.launch("snapshot", "Account")
    with org.transaction() as work:
        work.update("Account", first, {"Phone": "last"})
    synced.sync()
    versions = rows(synced, "history", "Account").filter(pl.col("Id") == first)["Phone"].to_list()
    assert {"before the second snapshot", "last"} <= set(versions)
    rebuilt_to_the_same_rows(synced, "Account")
    assert synced.rows("Account")[second]["Region__c"] == f"R{second}"


def test_a_snapshot_with_a_watermark_before_applied_events_is_put_in_before_them(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    org = synced.org
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    touched, drifted, created_later = *ids(org, "Account")[:2], None
    synced.sync()
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "3600")  # what was received in the last hour is not pinned
    for text in ("a", "b"):
        with org.transaction() as work:
            work.update("Account", touched, {"Phone": text})
            created_later = work.create("Account", {"Name": f"new {text}"})
        synced.sync()
    faults = synced.server.faults
    faults.arm(Fault.LOST_EVENT)
    with org.transaction() as work:
        work.update("Account", drifted, {"Phone": "no event tells"})
    run = synced.launch("snapshot", "Account")
    assert run.success, synced.failure(run)
    synced.sync()
    synced.assert_equal_to_the_org()
    history = rows(synced, "history", "Account")
    opened = history.filter(pl.col("_valid_to").is_null()).sort("Id")
    state = rows(synced, "current_state", "Account")
    names = [name for name in state.columns if not name.startswith("_")]
    assert opened.select(names).equals(state.select(names)), "what only the snapshot said is in history too"
    created = history.filter(pl.col("Id") == created_later)
    assert created["_change_type"].to_list() == ["SNAPSHOT", "CREATE"]
    assert created["_valid_from"][0] == created["_valid_to"][0], "read before its event: valid for no time of its own"
    rebuilt_to_the_same_rows(synced, "Account")


def test_an_entity_that_cannot_be_rebuilt_stops_no_other_and_is_named_with_its_reason(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = command.rebuild_entity

    def failing(warehouse: Any, entity: str, *given: Any) -> Any:
        if entity == "Account":
            raise ValueError("what a library says\nin two lines")
        return real(warehouse, entity, *given)

    monkeypatch.setattr(command, "rebuild_entity", failing)
    done = CliRunner().invoke(app, ["rebuild", "--entity", "Account", "--entity", "Contact"])
    assert done.exit_code == 1
    assert "Contact: rebuilt" in done.stderr
    assert "Account: what a library says. The others are done" in done.stderr
    assert "`sfcdc rebuild --entity Account`" in done.stderr
