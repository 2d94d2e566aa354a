"""The scripts of the engines that can run here, run by them: Spark, and Postgres over a copy of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import psycopg2
import psycopg2.extras
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sfcdc_assets import open_cut, open_history
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.cut_rows import rows_of_table
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets.sql.dialects import Dialect
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets_tests.deploy.postgres import LOOPBACK, PASSWORD, postgres_server
from sfcdc_assets_tests.sql.conftest import ENTITIES, Asked
from sfcdc_assets_tests.sql.small_warehouse import statements

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tables_of_the_org")]
SCHEMA = "copy"


def views_and_functions(asked: Asked, dialect: Dialect) -> list[str]:
    """What is made of the tables, which each engine has in another way."""
    warehouse = Warehouse(asked.root)
    found = statements(TablesOfCuts(warehouse, cuts_at(warehouse)), dialect, SCHEMA)
    return [each for each in found if " VIEW " in each or " FUNCTION " in each if "delta_scan" not in each]


def tables(asked: Asked) -> Iterator[tuple[str, pa.Table]]:
    for entity in ENTITIES:
        opened = open_cut(asked.root)
        for layer in ("current_state", "history"):
            yield f"{layer}_{entity.lower()}", pa.table(opened[f"{layer}/{entity}"].to_pyarrow_table())


def wanted(asked: Asked, entity: str) -> dict[str, Any]:
    """Numbers of rows: of the live records, the versions, those as of `then`, and those of later batches than 1."""
    opened, versions = open_cut(asked.root), pl.DataFrame(open_history(asked.root, entity))
    then = (pl.col("_valid_from") <= asked.then) & ((pl.col("_valid_to") > asked.then) | pl.col("_valid_to").is_null())
    rows = pl.DataFrame(opened.arrow(entity, deleted=True))
    return {
        "": opened.arrow(entity).num_rows,
        "_history": versions.height,
        "_as_of": versions.filter(then & ~pl.col("_is_deleted")).height,
        "_changes_after": rows.filter((pl.col("_batch") > 1) & pl.col("_change_type").is_not_null()).height,
    }


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFCDC_SPARK_CONF_SPARK__UI__ENABLED", "false")
        found = spark_session(load_settings())
    yield found
    found.stop()


def test_spark_runs_the_views_and_functions(asked: Asked, session: SparkSession, tmp_path: Path) -> None:
    session.sql(f"CREATE SCHEMA `{SCHEMA}` LOCATION '{tmp_path / 'spark'}'")
    try:
        for called, rows in tables(asked):
            rows_of_table(session, rows).write.saveAsTable(f"{SCHEMA}.{called}")
        for each in views_and_functions(asked, Dialect.SPARK):
            session.sql(each)
        of_time = f"TIMESTAMP '{asked.then.isoformat()}'"
        for entity in ENTITIES:
            given = {"": "", "_history": "", "_as_of": f"({of_time})", "_changes_after": "(1)"}
            counts = {end: session.sql(f"FROM {SCHEMA}.{entity.lower()}{end}{of}").count() for end, of in given.items()}
            assert counts == wanted(asked, entity)
    finally:
        session.sql(f"DROP SCHEMA `{SCHEMA}` CASCADE")


@pytest.fixture
def postgres() -> Iterator[Any]:
    with postgres_server() as server:
        place = {"host": LOOPBACK, "port": server.port, "user": "dagster", "dbname": "dagster"}
        connection = psycopg2.connect(password=PASSWORD, **place)
        try:
            yield connection
        finally:
            connection.close()


def test_postgres_runs_the_views_and_functions_over_a_copy(asked: Asked, postgres: Any) -> None:
    types = {pa.bool_(): "boolean", pa.int32(): "integer", pa.int64(): "bigint", pa.float64(): "double precision"}
    types |= {pa.date32(): "date", pa.timestamp("us", "UTC"): "timestamptz"}
    with postgres.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {SCHEMA}")
        for called, rows in tables(asked):
            typed = ", ".join(
                f'"{each.name}" {"text[]" if pa.types.is_list(each.type) else types.get(each.type, "text")}'
                for each in rows.schema
            )
            cursor.execute(f'CREATE TABLE {SCHEMA}."{called}" ({typed})')
            values = [tuple(row.values()) for row in rows.to_pylist()]
            psycopg2.extras.execute_values(cursor, f'INSERT INTO {SCHEMA}."{called}" VALUES %s', values)
        for each in views_and_functions(asked, Dialect.POSTGRES):
            cursor.execute(each)
        for entity in ENTITIES:
            given = {"": "", "_history": "", "_as_of": "(%s)", "_changes_after": "(1)"}
            counts = {}
            for end, of in given.items():
                cursor.execute(
                    f'SELECT count(*) FROM {SCHEMA}."{entity.lower()}{end}"{of}', [asked.then][: of == "(%s)"]
                )
                counts[end] = cursor.fetchone()[0]
            assert counts == wanted(asked, entity)
