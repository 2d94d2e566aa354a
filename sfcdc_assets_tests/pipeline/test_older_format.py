"""Tables that an earlier release made: nothing is done to them but by the command that builds them again.

`data/warehouse_of_format_1.tar.gz` was made by the last release whose `history` held current versions too: six
accounts, updated, deleted, undeleted, and one healed by a read-back.
"""

from __future__ import annotations

import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.applying.apply_changes import ApplyReport, apply_entity
from sfcdc_assets.pipeline.applying.entity_tables import OlderFormat
from sfcdc_assets.pipeline.entities import entity_states
from sfcdc_assets.pipeline.rebuilding.rebuild import rebuild_entity
from sfcdc_assets_tests.pipeline.fixtures import session_of_tests
from sfcdc_assets_tests.pipeline.lives_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.outside_client import clean_up_logs
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

ENTITY, CHANNEL = "Account", "/data/ChangeEvents"


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """A copy of it."""
    with tarfile.open(Path(__file__).parent / "data" / "warehouse_of_format_1.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    return Warehouse(str(tmp_path / "warehouse"))


def apply(tables: Warehouse) -> ApplyReport:
    return apply_entity(tables, session_of_tests(), NOTHING_PRIVATE, ENTITY, CHANNEL, "a test")


def values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def files(warehouse: Warehouse) -> set[Path]:
    return {path for path in warehouse.folder.rglob("*") if path.is_file()}


def test_tables_of_an_older_format_are_refused_with_the_command_that_builds_them_again(warehouse: Warehouse) -> None:
    before = files(warehouse)
    (state,) = entity_states(warehouse, {ENTITY: CHANNEL})
    assert state.has_work, "so that the next run says so"
    with pytest.raises(OlderFormat, match=f"`sfcdc rebuild --entity {ENTITY}`"):
        apply(warehouse)
    assert files(warehouse) == before

    rows = {row["Id"]: row for row in rows_of(warehouse, f"current_state/{ENTITY}")}
    versions = rows_of(warehouse, f"history/{ENTITY}")
    rebuild_entity(warehouse, ENTITY, CHANNEL, apply)
    found = {row["Id"]: row for row in rows_of(warehouse, f"current_state/{ENTITY}")}
    assert {key: values(row) for key, row in found.items()} == {key: values(row) for key, row in rows.items()}
    again = versions_of(warehouse, ENTITY)
    assert_versions_follow(again)
    key = ("Id", "_position", "_change_type", "_valid_from", "_commit_user", "_transaction_key")
    description = {tuple(row[name] for name in key): values(row) for row in again}
    assert {tuple(row[name] for name in key): values(row) for row in versions}.items() <= description.items()
    assert apply(warehouse).versions == 0, "it goes on from there"


def test_a_stream_and_snapshots_of_an_older_format_go_on_where_they_were(warehouse: Warehouse) -> None:
    raw_events, taken = RawEvents.open(warehouse), Snapshots.open(warehouse, ENTITY)
    assert taken is not None
    before = raw_events.checkpoint(CHANNEL)
    assert before.resume.replay_id is not None
    assert (raw_events.stored_checkpoint(CHANNEL).format, taken.checkpoint().format) == (1, 1)
    known = taken.complete(), taken.has_watermark_on(CHANNEL), taken.last_number(), taken.last_read_back()
    raw_events.upgrade(CHANNEL)
    taken.upgrade()
    clean_up_logs(warehouse.folder, time.time())
    raw_events, taken = RawEvents.open(warehouse), Snapshots.open(warehouse, ENTITY)
    assert taken is not None
    assert (raw_events.stored_checkpoint(CHANNEL).format, taken.checkpoint().format) == (2, 2)
    assert raw_events.checkpoint(CHANNEL) == before
    assert (taken.complete(), taken.has_watermark_on(CHANNEL), taken.last_number(), taken.last_read_back()) == known
    assert taken.all_complete() == (taken.complete(),)
