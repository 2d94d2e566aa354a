"""A table in Postgres that follows an entity: a Dagster asset which applies what has changed since it last ran.

The token is kept in Postgres too, and both are one transaction: whatever fails, the next run goes on from what is
there. Install psycopg2 beside this project, and name the database as libpq does (`DATABASE_URL`).
"""

from __future__ import annotations

import os
from typing import Any

import dagster as dg
import psycopg2
from psycopg2.extras import execute_values
from psycopg2.sql import SQL, Identifier

from sfcdc_assets import ChangesExpired, changes_since

ENTITY, TABLE = "Account", "account"
COLUMNS = {"Name": "text", "Industry": "text", "Phone": "text", "AnnualRevenue": "double precision"}
"""Those that the target has, with their types there."""


@dg.asset(deps=[dg.AssetKey(["salesforce", "account"])], kinds={"postgres"})
def account_in_postgres() -> dg.MaterializeResult[Any]:
    """Bring the living accounts in Postgres to the newest consistent cut."""
    changed, deleted = follow(os.environ["SFCDC_WAREHOUSE"], os.environ["DATABASE_URL"])
    return dg.MaterializeResult(metadata={"changed": changed, "deleted": deleted})


def follow(warehouse: str, database: str) -> tuple[int, int]:
    """Bring the table to the newest consistent cut; returns how many rows were written and deleted."""
    connection = psycopg2.connect(database)
    try:
        with connection, connection.cursor() as cursor:  # one transaction
            _create(cursor)
            cursor.execute("SELECT token FROM sfcdc_tokens WHERE entity = %s FOR UPDATE", (ENTITY,))
            found = cursor.fetchone()
            try:
                told, token = changes_since(warehouse, ENTITY, found[0] if found else None)
            except ChangesExpired:  # the tables were rebuilt, say: begin again
                cursor.execute(SQL("DELETE FROM {}").format(Identifier(TABLE)))
                told, token = changes_since(warehouse, ENTITY)
            rows = told.select(["Id", "_op", *COLUMNS]).to_pylist()
            living = [row for row in rows if row["_op"] != "delete"]
            gone = [row["Id"] for row in rows if row["_op"] == "delete"]
            execute_values(cursor, _upsert().as_string(cursor), [[row["Id"], *map(row.get, COLUMNS)] for row in living])
            cursor.execute(SQL("DELETE FROM {} WHERE id = ANY(%s)").format(Identifier(TABLE)), (gone,))
            cursor.execute(
                "INSERT INTO sfcdc_tokens VALUES (%s, %s) ON CONFLICT (entity) DO UPDATE SET token = excluded.token",
                (ENTITY, token),
            )
            return len(living), len(gone)
    finally:
        connection.close()


def _create(cursor: Any) -> None:
    columns = "".join(f", {name.lower()} {kind}" for name, kind in COLUMNS.items())
    cursor.execute("CREATE TABLE IF NOT EXISTS sfcdc_tokens (entity text PRIMARY KEY, token text NOT NULL)")
    cursor.execute(SQL("CREATE TABLE IF NOT EXISTS {} (id text PRIMARY KEY" + columns + ")").format(Identifier(TABLE)))


def _upsert() -> Any:
    names = [name.lower() for name in COLUMNS]
    return SQL("INSERT INTO {} (id, {}) VALUES %s ON CONFLICT (id) DO UPDATE SET {}").format(
        Identifier(TABLE),
        SQL(", ").join(map(Identifier, names)),
        SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(name)) for name in names),
    )


defs = dg.Definitions(assets=[account_in_postgres])
