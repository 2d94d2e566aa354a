"""Old commits of a log are looked for with every hundredth commit: after each one that costs more than the commit. Of
tables whose versions cuts name no writer deletes any."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.lake.delta.commit_protocol import CHECKPOINT_INTERVAL
from sfcdc_assets.lake.delta.table import OF_A_CUT, Table
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables import current_state, gap_reconciliation, history, text_fields
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.text_values import TEXT_FIELDS

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("Id", pa.string())])
DAY = 86_400
STATE = "current_state/Account"
CLEANS = "delta.enableExpiredLogCleanup"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def configuration(warehouse: Warehouse, name: str) -> dict[str, str]:
    found: dict[str, str] = DeltaTable(warehouse.uri(name)).metadata().configuration
    return found


def aged(log: Path, days: int) -> None:
    for path in log.iterdir():
        os.utime(path, (time.time() - days * DAY,) * 2)


def test_old_commits_are_deleted_with_every_hundredth_commit_and_with_no_other(warehouse: Warehouse) -> None:
    Table.open_or_create(warehouse, "t", SCHEMA).keep(log_hours=12)
    log = warehouse.folder / "t" / "_delta_log"
    for version in range(2, CHECKPOINT_INTERVAL + 3):
        table = Table.open_or_create(warehouse, "t", SCHEMA)
        assert table.version == version - 1
        table.append(SCHEMA.empty_table(), {"app": version}, {})
        aged(log, 1)
        found = len(list(log.glob("*.json")))
        if version < CHECKPOINT_INTERVAL - 1:
            assert found == version + 1
    assert found <= 4
    table = Table.open_or_create(warehouse, "t", SCHEMA)
    assert (table.version, table.transaction_version("app")) == (CHECKPOINT_INTERVAL + 2, CHECKPOINT_INTERVAL + 2)


@pytest.mark.parametrize(("name", "is_kept"), [(STATE, True), ("raw_events", False)])
def test_versions_that_cuts_may_name_can_be_opened_after_a_year_of_batches_without_maintenance(
    warehouse: Warehouse, name: str, *, is_kept: bool
) -> None:
    log = warehouse.folder / name / "_delta_log"
    for number in range(1, 2 * CHECKPOINT_INTERVAL + 1):
        Table.open_or_create(warehouse, name, SCHEMA).append(SCHEMA.empty_table(), {"app": number}, {})
        if number == CHECKPOINT_INTERVAL + 1:
            aged(log, 365)
    commits = len(list(log.glob("*.json")))
    assert (commits == 2 * CHECKPOINT_INTERVAL + 1) == is_kept


def test_the_tables_of_a_cut_and_no_others_keep_their_logs_from_the_first_commit_on(warehouse: Warehouse) -> None:
    CurrentState.open_or_create(warehouse, "Account", [])
    history.open_or_create(warehouse, "Account", [])
    text_fields.open_or_create(warehouse, "Account")
    Ledger.open_or_create(warehouse, "Account")
    RawEvents.open(warehouse)
    assert set(OF_A_CUT) == {current_state.LAYER, history.LAYER, text_fields.LAYER, gap_reconciliation.LAYER}
    assert [configuration(warehouse, f"{layer}/Account").get(CLEANS) for layer in OF_A_CUT] == ["false"] * 4
    assert CLEANS not in configuration(warehouse, "raw_events")
    built = Table.open(warehouse, STATE)
    assert built is not None
    Table.create_like(warehouse, "current_state/Contact", built)
    assert configuration(warehouse, "current_state/Contact")[CLEANS] == "false"


def test_a_table_of_an_older_release_keeps_its_log_from_the_next_maintenance_on(warehouse: Warehouse) -> None:
    name = text_fields.name_of("Account")
    DeltaTable.create(warehouse.uri(name), TEXT_FIELDS)
    done = list(maintain(warehouse, Retention(7), int(time.time() * 1000)))
    assert [each.failure for each in done] == [None]
    assert configuration(warehouse, name)[CLEANS] == "false"
