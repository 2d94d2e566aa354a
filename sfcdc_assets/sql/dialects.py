"""The views as SQL for engines that read Delta tables themselves: Spark and Databricks, Trino, Snowflake, Postgres.

A script names the tables (`current_state_account`, `history_account`), and makes of them what `sfcdc sql` has: the
live records, every version, the records as of a time, and the records that were changed after a batch. Such an engine
reads the newest version of each table. Each table is between two transactions; several together are of no one cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.timeline.version_columns import OF_THE_ROW


class Dialect(StrEnum):
    """An engine that the views can be printed for."""

    SPARK = "spark"
    TRINO = "trino"
    SNOWFLAKE = "snowflake"
    POSTGRES = "postgres"


_SPARK = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "STRING", "ARRAY<STRING>")
_TRINO = ("boolean", "integer", "bigint", "double", "date", "timestamp(6) with time zone", "varchar", "array(varchar)")
_SNOWFLAKE = ("BOOLEAN", "NUMBER(10,0)", "NUMBER(19,0)", "DOUBLE", "DATE", "TIMESTAMP_TZ", "VARCHAR", "VARIANT")
_POSTGRES = ("boolean", "integer", "bigint", "double precision", "date", "timestamptz", "text", "text[]")
_ARROW = (pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us", "UTC"), pa.string())
_BIGINT, _TIME, _TEXT, _TEXTS = 2, 5, 6, 7

Table = Callable[["Script", str, str, pa.Schema], str]
"""A script, the name that a table is to have, its path and its columns -> the statement that names it there."""


@dataclass(frozen=True)
class Script:
    """What is the same for all statements of a script. `about`: what a person must do before, and how the parameters
    of `function` are given; `function` is None where the engine has no functions that return tables."""

    warehouse: Warehouse
    schema: str
    quote: str
    types: Sequence[str]
    about: tuple[str, ...]
    table: Table
    function: Callable[[Script, str, tuple[str, str], str, pa.Schema], str] | None
    argument: str | None = None
    """What stands for the parameter in the text of a function; None: its name."""

    def name(self, identifier: str) -> str:
        """Write an identifier in the engine's quotes."""
        return self.quote + identifier.replace(self.quote, self.quote * 2) + self.quote

    def of_schema(self, identifier: str) -> str:
        """Write the name of a table or view of the schema."""
        return f"{self.name(self.schema)}.{self.name(identifier)}"

    def type(self, arrow: pa.DataType) -> str:
        """Return the engine's name of a type."""
        if pa.types.is_list(arrow):
            return self.types[_TEXTS]
        return self.types[_ARROW.index(arrow)] if arrow in _ARROW else self.types[_TEXT]

    def list(self, columns: Sequence[str]) -> str:
        """Write the names of columns one after another."""
        return ", ".join(map(self.name, columns))


def script(tables: TablesOfCuts, dialect: Dialect, schema: str) -> str:
    """Return the statements for the entities of the cuts, each ended by a semicolon. Raises what opening them does."""
    made = _SCRIPTS[dialect](tables.warehouse, schema)
    create = f"CREATE SCHEMA IF NOT EXISTS {made.name(schema)}"
    statements = [create]
    for entity in tables.shown:
        if current_state.LAYER in tables.layers(entity):
            statements += _of_entity(made, tables.of(entity))
    said = [f"-- {' '.join(line.split())}" for line in (*made.about, *_PROMISES)]
    return "\n".join([*said, "", *(f"{each};" for each in statements), ""])


_PROMISES = (
    "Each table is read at its newest version, between two transactions; several tables are of no one cut.",
    "Changes after a batch: one row a record, as it is now. Ask next time with the greatest _batch you were given.",
    "After `sfcdc rebuild` batches are counted from the start: begin again with -1.",
)


def _of_entity(to: Script, of: EntityTables) -> Iterator[str]:
    rows, past = (f"{layer}_{of.view_name}" for layer in (current_state.LAYER, history.LAYER))
    schema = of.schema(current_state.LAYER)
    yield to.table(to, rows, current_state.name_of(of.entity), schema)
    columns = [each for each in schema.names if each not in OF_THE_ROW]
    versions = (
        f"SELECT {to.list(columns)}, {to.name('_in_doubt')} OR {to.name('_certain_fields')} IS NOT NULL AS "
        f"{to.name('_in_doubt')}, CAST(NULL AS {to.types[_TIME]}) AS {to.name('_valid_to')}, "
        f"CAST(NULL AS {to.types[_BIGINT]}) AS {to.name('_superseded_at')} "
        f"FROM {to.of_schema(rows)} WHERE {to.name('_change_type')} IS NOT NULL"
    )
    if history.LAYER in of.tables:
        there = of.schema(history.LAYER)
        yield to.table(to, past, history.name_of(of.entity), there)
        had = ", ".join(
            to.name(each)
            if each in there.names
            else f"CAST(NULL AS {to.type(schema.field(each).type)}) AS {to.name(each)}"
            for each in columns
        )
        versions += (
            f" UNION ALL SELECT {had}, {to.name('_certain_fields')} IS NOT NULL, {to.name('_valid_to')}, "
            f"{to.name('_superseded_at')} FROM {to.of_schema(past)} WHERE {to.name('_batch')} <= "
            f"(SELECT max({to.name('_batch')}) FROM {to.of_schema(rows)})"
        )
    current = f"SELECT {to.list(schema.names)} FROM {to.of_schema(rows)} WHERE NOT {to.name('_is_deleted')}"
    view, all_versions = of.view_name, f"{of.view_name}_history"
    yield f"CREATE OR REPLACE VIEW {to.of_schema(view)} AS {current}"
    yield f"CREATE OR REPLACE VIEW {to.of_schema(all_versions)} AS {versions}"
    in_order = [*(schema.field(each) for each in columns), *_ENDS]
    versions_then = f"SELECT {to.list([each.name for each in in_order])} FROM {to.of_schema(all_versions)}"

    def then(moment: str) -> str:
        ends = f"({to.name('_valid_to')} > {moment} OR {to.name('_valid_to')} IS NULL)"
        valid = f"{to.name('_valid_from')} <= {moment} AND {ends} AND NOT {to.name('_is_deleted')}"
        return f"{versions_then} WHERE {valid}"

    def changed(batch: str) -> str:
        is_version = f"{to.name('_change_type')} IS NOT NULL"
        return (
            f"SELECT {to.list(schema.names)} FROM {to.of_schema(rows)} "
            f"WHERE {to.name('_batch')} > {batch} AND {is_version}"
        )

    # No field of an object begins with an underscore.
    yield _function(to, f"{view}_as_of", ("_moment", to.types[_TIME]), then, pa.schema(in_order))
    yield _function(to, f"{view}_changes_after", ("_after_batch", to.types[_BIGINT]), changed, schema)


_ENDS = (
    pa.field("_in_doubt", pa.bool_()),
    pa.field("_valid_to", pa.timestamp("us", "UTC")),
    pa.field("_superseded_at", pa.int64()),
)


def _function(
    to: Script, called: str, parameter: tuple[str, str], query: Callable[[str], str], schema: pa.Schema
) -> str:
    """Return a function that returns a table; where there are none, a statement to be prepared in a session, as a
    comment of one line."""
    if to.function is not None:
        return to.function(to, called, parameter, query(to.argument or to.name(parameter[0])), schema)
    return f"-- PREPARE {to.name(called)} FROM {query(f'CAST(? AS {parameter[1]})')}"


def _of_spark(warehouse: Warehouse, schema: str) -> Script:
    def table(to: Script, called: str, path: str, _: pa.Schema) -> str:
        location = to.warehouse.uri(path).replace("\\", "\\\\").replace("'", "\\'")
        return f"CREATE TABLE IF NOT EXISTS {to.of_schema(called)} USING DELTA LOCATION '{location}'"

    def function(to: Script, called: str, parameter: tuple[str, str], query: str, _: pa.Schema) -> str:
        given = f"{to.name(parameter[0])} {parameter[1]}"
        return f"CREATE OR REPLACE FUNCTION {to.of_schema(called)}({given}) RETURNS TABLE RETURN {query}"

    about = ("Spark 4 with Delta Lake, or Databricks.", "SELECT * FROM account_as_of(TIMESTAMP '2026-11-20 12:00:00')")
    return Script(warehouse, schema, "`", _SPARK, about, table, function)


def _of_trino(warehouse: Warehouse, schema: str) -> Script:
    def table(to: Script, called: str, path: str, _: pa.Schema) -> str:
        names = f"schema_name => {literal(to.schema)}, table_name => {literal(called)}"
        return f"CALL system.register_table({names}, table_location => {literal(to.warehouse.uri(path))})"

    about = (
        "Trino; the session's catalog (USE) is one of the Delta Lake connector that lets tables be registered.",
        "It has no functions that return tables: prepare the statements that are comments, and EXECUTE ... USING.",
    )
    return Script(warehouse, schema, '"', _TRINO, about, table, None)


def _of_snowflake(warehouse: Warehouse, schema: str) -> Script:
    def table(to: Script, called: str, path: str, columns: pa.Schema) -> str:
        typed = ", ".join(
            f"{to.name(each.name)} {to.type(each.type)} AS (VALUE:{to.name(each.name)}::{to.type(each.type)})"
            for each in columns
        )
        stage = f"@{to.of_schema('warehouse')}/{path}/"
        options = "FILE_FORMAT = (TYPE = PARQUET) TABLE_FORMAT = DELTA AUTO_REFRESH = FALSE REFRESH_ON_CREATE = FALSE"
        return f"CREATE OR REPLACE EXTERNAL TABLE {to.of_schema(called)} ({typed}) LOCATION = {stage} {options}"

    def function(to: Script, called: str, parameter: tuple[str, str], query: str, columns: pa.Schema) -> str:
        returned = ", ".join(f"{to.name(each.name)} {to.type(each.type)}" for each in columns)
        given = f"{to.name(parameter[0])} {parameter[1]}"
        return (
            f"CREATE OR REPLACE FUNCTION {to.of_schema(called)}({given}) RETURNS TABLE ({returned}) AS {literal(query)}"
        )

    about = (
        f"Snowflake, with a stage {schema}.warehouse at {warehouse.root}.",
        "ALTER EXTERNAL TABLE ... REFRESH after each sync brings a table to its newest version.",
        "SELECT * FROM TABLE(account_as_of('2026-11-20 12:00:00Z'::TIMESTAMP_TZ))",
    )
    return Script(warehouse, schema, '"', _SNOWFLAKE, about, table, function)


def _of_postgres(warehouse: Warehouse, schema: str) -> Script:
    def table(to: Script, called: str, path: str, columns: pa.Schema) -> str:
        typed = ", ".join(f"r[{literal(each.name)}]::{to.type(each.type)} AS {to.name(each.name)}" for each in columns)
        location = literal(to.warehouse.uri(path))
        return f"CREATE OR REPLACE VIEW {to.of_schema(called)} AS SELECT {typed} FROM delta_scan({location}) AS r"

    def function(to: Script, called: str, parameter: tuple[str, str], query: str, columns: pa.Schema) -> str:
        returned = ", ".join(f"{to.name(each.name)} {to.type(each.type)}" for each in columns)
        given = f"{to.name(parameter[0])} {parameter[1]}"
        return (
            f"CREATE OR REPLACE FUNCTION {to.of_schema(called)}({given}) RETURNS TABLE ({returned}) "
            f"LANGUAGE sql STABLE AS {literal(query)}"
        )

    about = (
        "Postgres with pg_duckdb, whose delta_scan reads the tables (SELECT duckdb.install_extension('delta')).",
        "With a copy of the tables under the same names instead, leave out the views over delta_scan.",
        "SELECT * FROM account_as_of('2026-11-20 12:00Z')",
    )
    return Script(warehouse, schema, '"', _POSTGRES, about, table, function, argument="$1")


_SCRIPTS: dict[Dialect, Callable[[Warehouse, str], Script]] = {
    Dialect.SPARK: _of_spark,
    Dialect.TRINO: _of_trino,
    Dialect.SNOWFLAKE: _of_snowflake,
    Dialect.POSTGRES: _of_postgres,
}
