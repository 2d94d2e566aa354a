"""Old commits of a log are looked for with every hundredth commit: after each one that costs more than the commit."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import CHECKPOINT_INTERVAL
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

SCHEMA = pa.schema([("Id", pa.string())])
DAY = 86_400


def test_old_commits_are_deleted_with_every_hundredth_commit_and_with_no_other(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    Table.open_or_create(warehouse, "t", SCHEMA).keep(log_hours=12)
    log = tmp_path / "t" / "_delta_log"
    for version in range(2, CHECKPOINT_INTERVAL + 3):
        table = Table.open_or_create(warehouse, "t", SCHEMA)
        assert table.version == version - 1
        table.append(SCHEMA.empty_table(), {"app": version}, {})
        for path in log.iterdir():
            os.utime(path, (time.time() - DAY,) * 2)
        found = len(list(log.glob("*.json")))
        if version < CHECKPOINT_INTERVAL - 1:
            assert found == version + 1
    assert found <= 4
    table = Table.open_or_create(warehouse, "t", SCHEMA)
    assert (table.version, table.transaction_version("app")) == (CHECKPOINT_INTERVAL + 2, CHECKPOINT_INTERVAL + 2)
