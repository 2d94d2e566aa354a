"""Tables that an earlier release made: nothing is done to them but by the command that builds them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sfcdc_assets.pipeline.entity_tables import OlderFormat
from sfcdc_assets_tests.pipeline.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.quiet_life import ENTITY, LEDGER, STATE, QuietLife, quiet

NEW = {"_valid_from", "_change_type", "_changed_fields", "_certain_fields", "_batch", "_read_position"}


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    """`current_state` has the columns of before."""
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        life.update(life.ids()[0], Name="applied before")
        life.catch_up()
        table = DeltaTable(life.warehouse.uri(STATE))
        rows = pa.table(table.scan())
        kept = rows.select([name for name in rows.column_names if name not in NEW])
        write_deltalake(table, kept, mode="overwrite", schema_mode="overwrite")
        yield life


def test_tables_of_an_older_format_are_refused_with_the_command_that_builds_them_again(life: QuietLife) -> None:
    life.update(life.ids()[1], Name="waits")
    before = DeltaTable(life.warehouse.uri(STATE)).version()
    with pytest.raises(OlderFormat, match=f"`sfcdc rebuild --entity {ENTITY}`"):
        life.catch_up()
    assert DeltaTable(life.warehouse.uri(STATE)).version() == before
    assert rows_of(life.warehouse, LEDGER) == []
    life.rebuild_beside()
    life.catch_up()
    life.assert_equal()
    assert {field.name for field in DeltaTable(life.warehouse.uri(STATE)).schema().fields} >= NEW
