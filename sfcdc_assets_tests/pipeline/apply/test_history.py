"""History, consistent cuts, rebuilding and explaining, against the org's own log of transactions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets.lake.tables.all_versions import open_history
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, Rows
from sfcdc_assets_tests.pipeline.fixtures import copied, only_settings_of_tests
from sfcdc_assets_tests.pipeline.oracle import living_at
from sfcdc_assets_tests.pipeline.story import go_on

SEED = 41
ENTITIES = ("Account", "Contact")


class Lived:
    """A pipeline that lived through some traffic, and what the org did meanwhile."""

    def __init__(self, pipeline: EmulatedPipeline, seed: int) -> None:
        print(f"seed {seed}")
        self.pipeline = pipeline
        self.dice = Random(seed)
        self.since = pipeline.org.last_commit_number
        traffic = TrafficGenerator(pipeline.org, seed, FULL_MIX, bus=pipeline.server.bus)
        for _ in range(3):
            traffic.run(events=70)
            pipeline.sync()
        self.transactions = list(pipeline.org.transactions(self.since))


@pytest.fixture(scope="module")
def told(day_zero: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("lived")
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with copied(day_zero, folder / "org", patch) as pipeline:
            yield Lived(pipeline, SEED)


@pytest.fixture
def lived(told: Lived, monkeypatch: pytest.MonkeyPatch) -> Lived:
    """One for all tests, which leave it equal to the org."""
    go_on(told.pipeline, monkeypatch)
    return told


def frame(rows: Any) -> pl.DataFrame:
    return pl.DataFrame(pa.table(rows))


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Without the batch that wrote them, which is another one when they are built again."""
    keys = ("Id", "record_id", "field", "position", "_position", "_superseded_at")
    return rows.sort([name for name in keys if name in rows]).drop("_batch", "_first_batch", strict=False)


def living(rows: list[dict[str, Any]]) -> Rows:
    return {row["Id"]: {name: value for name, value in row.items() if not name.startswith("_")} for row in rows}


def test_history_cuts_and_rebuilt_layers_tell_what_the_org_did(lived: Lived) -> None:
    assert_history_shows_any_moment(lived)
    assert_versions_follow_one_another(lived)
    assert_each_cut_is_a_transaction_boundary(lived)
    assert_explained(lived)
    assert_rebuilding_gives_the_same_rows(lived)


def assert_history_shows_any_moment(lived: Lived) -> None:
    times = sorted({each.commit_timestamp for each in lived.transactions})
    for committed in lived.dice.sample(times, min(6, len(times))):
        moment = datetime.fromtimestamp(committed / 1000, UTC) + timedelta(milliseconds=1)
        for entity in ENTITIES:
            rows = [
                row
                for row in lived.pipeline.all_versions(entity)
                if row["_valid_from"] <= moment and (row["_valid_to"] is None or row["_valid_to"] > moment)
            ]
            last = max(each.commit_number for each in lived.transactions if each.commit_timestamp <= committed)
            expected = living_at(lived.pipeline.org, entity, last)
            assert living([row for row in rows if not row["_is_deleted"]]) == expected, f"{entity} at {moment}"


def assert_versions_follow_one_another(lived: Lived) -> None:
    for entity in ENTITIES:
        history = frame(open_history(str(lived.pipeline.warehouse), entity))
        versions = history.sort("Id", "_position", "_superseded_at", nulls_last=True)
        following = versions.with_columns(pl.col("_valid_from").shift(-1).over("Id").alias("next"))
        assert following.filter(pl.col("next").ne_missing(pl.col("_valid_to"))).is_empty(), entity
        opened = versions.filter(pl.col("_valid_to").is_null())
        state = frame(lived.pipeline.table(f"current_state/{entity}").scan())
        names = [name for name in state.columns if not name.startswith("_")]
        assert opened.sort("Id").select(names).equals(state.sort("Id").select(names)), entity


def assert_each_cut_is_a_transaction_boundary(lived: Lived) -> None:
    cuts = lived.pipeline.scan("consistent_cuts")
    raw = lived.pipeline.scan("raw_events")
    assert len(cuts) >= 3, "every sync leaves a cut"
    for cut in cuts:
        assert cut["channel"] == CHANNEL
        seen = {row["transaction_key"] for row in raw if row["position"] <= cut["position"]}
        later = {row["transaction_key"] for row in raw if row["position"] > cut["position"]}
        assert not seen & later, "a transaction is in the cut as a whole or not at all"
        tables = dict(cut["tables"])
        first_later = min((t.commit_number for t in lived.transactions if t.transaction_key in later), default=None)
        before = [t.commit_number for t in lived.transactions if first_later is None or t.commit_number < first_later]
        last = max([lived.since, *before])
        for entity in ENTITIES:
            path = str(lived.pipeline.warehouse / "current_state" / entity)
            rows = pa.table(DeltaTable(path, version=tables[f"current_state/{entity}"]).scan()).to_pylist()
            found = living([row for row in rows if not row["_is_deleted"]])
            assert found == living_at(lived.pipeline.org, entity, last), f"{entity} at position {cut['position']}"


def assert_explained(lived: Lived) -> None:
    texts = {field.name for field in lived.pipeline.org.definitions["Account"].stored_fields if field.type == "string"}
    updates = [
        (change, transaction, field)
        for transaction in lived.transactions
        for change in transaction.changes
        for field in sorted(texts & set(change.changed_fields))
        if change.entity == "Account" and change.change_type == "UPDATE"
    ]
    change, transaction, field = updates[-1]
    description = CliRunner().invoke(app, ["explain", "Account", change.record_id, field.lower(), "--json"])
    assert description.exit_code == 0, description.output
    links = [json.loads(line) for line in description.output.splitlines()]
    (link,) = [each for each in links if each["transaction_key"] == transaction.transaction_key]
    assert change.after is not None
    assert link["value"] == change.after[field]
    assert (link["commit_user"], link["change_origin"]) == (transaction.commit_user, transaction.change_origin)


def assert_rebuilding_gives_the_same_rows(lived: Lived) -> None:
    layers = ("text_fields", "history", "current_state")

    def rows(layer: str) -> pl.DataFrame:
        return in_order(frame(lived.pipeline.table(f"{layer}/Account").scan()))

    before = {layer: rows(layer) for layer in layers}
    description = CliRunner().invoke(app, ["rebuild", "--entity", "Account"])
    assert description.exit_code == 0, description.output
    for layer in layers:
        assert rows(layer).equals(before[layer]), layer


def test_a_layer_whose_folder_was_removed_is_rebuilt_by_the_next_sync(lived: Lived) -> None:
    history = lived.pipeline.warehouse / "history" / "Contact"
    before = in_order(frame(lived.pipeline.table("history/Contact").scan()))
    shutil.rmtree(history)
    lived.pipeline.sync()
    after = in_order(frame(lived.pipeline.table("history/Contact").scan()))
    assert after.equals(before)


def test_a_cut_that_does_not_exist_and_a_field_that_does_not_are_reported(synced: EmulatedPipeline) -> None:
    cut = CliRunner().invoke(app, ["cut", "--at", "1999-01-01"])
    assert (cut.exit_code, "no consistent cut" in cut.output) == (1, True)
    field = CliRunner().invoke(app, ["explain", "Account", "001000000000001", "Nope"])
    assert (field.exit_code, "has no field Nope" in field.output) == (1, True)
