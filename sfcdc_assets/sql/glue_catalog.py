"""The Delta tables in an AWS Glue catalog, where Athena, EMR and Redshift Spectrum find them by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts

_TYPES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}
"""Hive's names, which Glue uses; text is the rest."""
_LAYERS = (current_state.LAYER, history.LAYER)


class GlueRefused(SfcdcError):
    """The tables cannot be registered in Glue."""

    def __init__(self, database: str, said: str) -> None:
        self.database = database
        super().__init__(
            f"The tables could not be registered in the Glue database {database} ({' '.join(said.split())}). Check the "
            "region, the rights glue:CreateTable and glue:UpdateTable, and that the warehouse is in S3."
        )


class GlueClient(Protocol):
    """What is used of boto3's client."""

    exceptions: Any

    def create_table(self, **given: Any) -> Any:
        """Create a table."""

    def update_table(self, **given: Any) -> Any:
        """Replace a table's description."""


def glue_tables(warehouse: Warehouse, tables: TablesOfCuts) -> Iterator[dict[str, Any]]:
    """Yield the description of each entity's `current_state` and `history`, as Glue takes it. Raises what opening the
    tables does."""
    for entity in tables.shown:
        if current_state.LAYER in tables.layers(entity):
            of = tables.of(entity)
            yield from (_table(warehouse, of, layer) for layer in _LAYERS if layer in of.tables)


def _table(warehouse: Warehouse, of: EntityTables, layer: str) -> dict[str, Any]:
    columns = [{"Name": field.name.lower(), "Type": _type(field.type)} for field in of.schema(layer)]
    return {
        "Name": f"{layer}_{of.view_name}",
        "Description": f"{layer} of {of.entity}, a Delta table of sfcdc_assets.",
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {
            "EXTERNAL": "TRUE",
            "table_type": "DELTA",
            "classification": "delta",
            "spark.sql.sources.provider": "delta",
        },
        "StorageDescriptor": {
            "Columns": columns,
            "Location": f"{warehouse.uri(f'{layer}/{of.entity}')}/",
            "SerdeInfo": {"Parameters": {"path": f"{warehouse.uri(f'{layer}/{of.entity}')}/"}},
        },
    }


def _type(arrow: pa.DataType) -> str:
    return f"array<{_type(arrow.value_type)}>" if pa.types.is_list(arrow) else _TYPES.get(arrow, "string")


def register(client: GlueClient, database: str, table: Mapping[str, Any]) -> None:
    """Create a table in a database that is there, or bring its description up to date. Raises what boto3 does."""
    try:
        client.create_table(DatabaseName=database, TableInput=dict(table))
    except client.exceptions.AlreadyExistsException:
        client.update_table(DatabaseName=database, TableInput=dict(table))


def register_all(warehouse: Warehouse, tables: TablesOfCuts, database: str) -> int:
    """Register every table in a database that is there, with the credentials and the region that AWS's tools use;
    returns how many there are. Raises `GlueRefused`."""
    if not warehouse.root.startswith(("s3://", "s3a://")):
        raise GlueRefused(database, f"{warehouse.root} is not in S3")
    try:
        import boto3  # noqa: PLC0415 - only with the extra
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    except ModuleNotFoundError:
        said = "it needs boto3: pip install 'sfcdc_assets[glue]'"
        raise GlueRefused(database, said) from None
    found = list(glue_tables(warehouse, tables))
    try:
        client = boto3.client("glue")
        for each in found:
            register(client, database, each)
    except (BotoCoreError, ClientError) as error:
        raise GlueRefused(database, str(error)) from error
    return len(found)
