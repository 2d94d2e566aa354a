"""A file that a cut names and that is no more there, or cannot be read: the error names the table and the way out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sfcdc_assets.consistent_cut import open_cut
from sfcdc_assets.lake.errors import CutGone, TableDamaged
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.sql.conftest import Asked

QUERY = "SELECT * FROM account"
pytestmark = pytest.mark.usefixtures("tables_of_the_org")


@pytest.fixture
def warehouse(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the module's, to be harmed."""
    copy = tmp_path / "warehouse"
    shutil.copytree(asked.root, copy)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(copy))
    return copy


def compact_and_remove_old_files(table: DeltaTable) -> None:
    """As another client does that keeps nothing of before."""
    table.optimize.z_order(["Id"])
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def files(warehouse: Path) -> list[Path]:
    """Those of Account's rows."""
    found = DeltaTable(str(warehouse / "current_state" / "Account")).file_uris()
    return [Path(each.removeprefix("file://")) for each in found]


def test_old_files_removed_by_another_client_are_no_damage_but_a_cut_that_is_gone(warehouse: Path) -> None:
    compact_and_remove_old_files(DeltaTable(str(warehouse / "current_state" / "Account")))
    said = refusal(sfcdc("sql", QUERY))
    assert "names version" in said
    assert "of current_state/Account" in said
    assert "`sfcdc sync` notes one" in said
    with pytest.raises(CutGone):
        open_cut(str(warehouse)).arrow("Account")
    with pytest.raises(CutGone):
        open_cut(str(warehouse)).duckdb()


def test_a_missing_file_is_named_with_its_table_and_what_mends_it(warehouse: Path) -> None:
    (file, *_) = files(warehouse)
    file.unlink()
    said = refusal(sfcdc("sql", QUERY))
    assert f"Table current_state/Account is damaged: file {file.name}" in said
    assert "`sfcdc rebuild --entity Account` builds it again" in said
    assert sfcdc("sql", "SELECT count(*) FROM user").exit_code == 0


def test_a_file_that_is_no_parquet_is_named_with_its_table_too(warehouse: Path) -> None:
    (file, *_) = files(warehouse)
    file.write_bytes(b"x" * file.stat().st_size)
    assert f"Table current_state/Account is damaged: file {file.name}" in refusal(sfcdc("sql", QUERY))
    with pytest.raises(TableDamaged):
        open_cut(str(warehouse)).arrow("Account")


def test_a_query_that_fails_by_itself_is_not_taken_for_a_damaged_file(warehouse: Path) -> None:
    result = sfcdc("sql", "SELECT CAST('x' AS INTEGER) FROM account")
    assert result.exit_code == 1
    assert result.stderr.startswith("sfcdc: Conversion Error")
