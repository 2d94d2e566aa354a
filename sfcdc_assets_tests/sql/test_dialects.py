"""The scripts for other engines, as their dialects' grammars read them; those that can run here are in
`test_dialects_in_engines`."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from sfcdc_assets.sql.dialects import Dialect, script
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.fixtures import only_settings_of_tests
from sfcdc_assets_tests.sql.small_warehouse import small_warehouse, statements, tables_of

ENTITIES = ("Account", "Order", "Invoice__c")
SCHEMA = "copy"


@pytest.fixture
def tables(tmp_path: Path) -> TablesOfCuts:
    return tables_of(small_warehouse(tmp_path, ENTITIES))


@pytest.mark.parametrize("dialect", Dialect)
def test_every_statement_is_one_of_the_dialect(tables: TablesOfCuts, dialect: Dialect) -> None:
    found = statements(tables, dialect, SCHEMA)
    made = [sqlglot.parse_one(each, dialect=dialect, error_level=sqlglot.ErrorLevel.RAISE) for each in found]
    names = {table.name for each in made if isinstance(each, exp.Create) for table in [each.find(exp.Table)] if table}
    for entity in ENTITIES:
        assert names >= {entity.lower(), f"{entity.lower()}_history"}
    whole = script(tables, dialect, SCHEMA)
    prepared = [line.removeprefix("-- ") for line in whole.splitlines() if line.startswith("-- PREPARE")]
    assert len(prepared) == (2 * len(ENTITIES) if dialect is Dialect.TRINO else 0)
    for each in prepared:
        query = each.partition(" FROM ")[2].removesuffix(";")
        assert isinstance(sqlglot.parse_one(query, dialect=dialect), exp.Select)


@pytest.mark.parametrize("dialect", Dialect)
def test_no_name_leads_out_of_its_quotes(tables: TablesOfCuts, dialect: Dialect) -> None:
    hostile = "x`\"; DROP TABLE y; --\n'z"
    found = statements(tables, dialect, hostile)
    text = "\n".join(found)
    quote = "`" if dialect is Dialect.SPARK else '"'
    assert quote + hostile.replace(quote, quote * 2) + quote in text


def test_the_command_prints_a_script_and_asks_for_one_of_its_options(
    tables: TablesOfCuts, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_settings_of_tests(monkeypatch)
    monkeypatch.setenv("SFCDC_WAREHOUSE", tables.warehouse.root)
    result = sfcdc("views", "--dialect", "trino")
    assert result.exit_code == 0, result.stderr
    assert "register_table(schema_name => 'salesforce', table_name => 'current_state_account'" in result.stdout
    assert sfcdc("views").exit_code == 2
