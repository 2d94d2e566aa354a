"""The Delta tables in a Unity Catalog, by the REST interface of its open-source server, which Databricks has too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts

if TYPE_CHECKING:
    from unitycatalog.client import TablesApi

_TYPES = {
    pa.bool_(): ("BOOLEAN", "boolean", "boolean"),
    pa.int32(): ("INT", "int", "integer"),
    pa.int64(): ("LONG", "bigint", "long"),
    pa.float64(): ("DOUBLE", "double", "double"),
    pa.date32(): ("DATE", "date", "date"),
    pa.timestamp("us", "UTC"): ("TIMESTAMP", "timestamp", "timestamp"),
}
"""The catalog's name of a type, its text, and Spark's name in JSON; text is the rest."""
_TEXT = ("STRING", "string", "string")
_TEXTS = ("ARRAY", "array<string>", {"type": "array", "elementType": "string", "containsNull": True})
_THERE = "TABLE_ALREADY_EXISTS"
CLIENT = "unitycatalog-client>=0.7,<0.8"
"""Its own makers' client. No extra of ours brings it: its pins would hold back what all others use."""


class UnityRefused(SfcdcError):
    """The tables cannot be registered in the catalog."""

    def __init__(self, schema: str, said: str) -> None:
        self.schema = schema
        super().__init__(
            f"The tables could not be registered in the Unity Catalog schema {schema} ({' '.join(said.split())}). "
            "Check UNITY_CATALOG_SERVER, UNITY_CATALOG_TOKEN, and that the catalog and the schema are there."
        )


def unity_tables(warehouse: Warehouse, tables: TablesOfCuts) -> Iterator[dict[str, Any]]:
    """Yield the description of each entity's `current_state` and `history`, as the catalog takes it: external Delta
    tables. Raises what opening the tables does."""
    for entity in tables.shown:
        if current_state.LAYER not in tables.layers(entity):
            continue
        of = tables.of(entity)
        for layer in (current_state.LAYER, history.LAYER):
            if layer in of.tables:
                yield {
                    "name": f"{layer}_{of.view_name}",
                    "table_type": "EXTERNAL",
                    "data_source_format": "DELTA",
                    "storage_location": _location(warehouse, f"{layer}/{entity}"),
                    "comment": f"{layer} of {entity}, a Delta table of sfcdc_assets.",
                    "columns": [_column(number, field) for number, field in enumerate(of.schema(layer))],
                }


def register_all(warehouse: Warehouse, tables: TablesOfCuts, schema: str, server: str, token: str | None) -> int:
    """Register every table in a schema (`catalog.schema`) that is there; returns how many there are. An entry that is
    there already is replaced, as the interface changes none. Raises `UnityRefused`."""
    catalog, _, name = schema.partition(".")
    if not catalog or not name:
        raise UnityRefused(schema, "it is to be written as CATALOG.SCHEMA")
    found = list(unity_tables(warehouse, tables))
    try:
        import unitycatalog.client  # noqa: F401, PLC0415 - only where the client is installed
    except ModuleNotFoundError:
        raise UnityRefused(schema, f"it needs a client: pip install '{CLIENT}'") from None
    asyncio.run(_register(found, schema, server, token))
    return len(found)


async def _register(found: list[dict[str, Any]], schema: str, server: str, token: str | None) -> None:
    from aiohttp import ClientError  # noqa: PLC0415 - only where the client is installed
    from unitycatalog.client import ApiClient, Configuration, TablesApi  # noqa: PLC0415
    from unitycatalog.client.exceptions import ApiException  # noqa: PLC0415

    host = f"{server.rstrip('/')}/api/2.1/unity-catalog"
    # Configuration takes a token too, and sends it nowhere: the interface's description names no way to log in.
    header = ("Authorization", f"Bearer {token}") if token else ()
    try:
        async with ApiClient(Configuration(host=host), *header) as client:
            for each in found:
                await _put(TablesApi(client), each, schema)
    except (ApiException, ClientError) as error:
        raise UnityRefused(schema, str(getattr(error, "body", None) or error)) from error


async def _put(tables: TablesApi, table: dict[str, Any], schema: str) -> None:
    from unitycatalog.client import CreateTable  # noqa: PLC0415
    from unitycatalog.client.exceptions import ApiException  # noqa: PLC0415

    catalog, _, name = schema.partition(".")
    wanted = CreateTable.from_dict({**table, "catalog_name": catalog, "schema_name": name})
    try:
        await tables.create_table(wanted)
    except ApiException as error:
        if _THERE not in str(error.body):
            raise
        # Of an external table only the entry goes.
        await tables.delete_table(f"{schema}.{table['name']}")
        await tables.create_table(wanted)


def _location(warehouse: Warehouse, name: str) -> str:
    uri = warehouse.uri(name)
    return uri if "://" in uri else Path(uri).resolve().as_uri()


def _column(number: int, field: pa.Field) -> dict[str, Any]:
    kind, text, spark = _TEXTS if pa.types.is_list(field.type) else _TYPES.get(field.type, _TEXT)
    of_spark = {"name": field.name, "type": spark, "nullable": True, "metadata": {}}
    return {
        "name": field.name,
        "type_name": kind,
        "type_text": text,
        "type_json": json.dumps(of_spark),
        "position": number,
        "nullable": True,
    }
