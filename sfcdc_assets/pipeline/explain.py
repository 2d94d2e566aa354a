"""Who set this value, for one record or for many, from the tables alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.change_events.record_id import to_18_characters
from sfcdc_assets.lake import current_state, history
from sfcdc_assets.lake.all_versions import all_versions
from sfcdc_assets.lake.checkpoint import Checkpoint
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.explanation import NotExplained
from sfcdc_assets.state.frames import arrow_frame
from sfcdc_assets.state.value_chain import CHAIN, value_chain

_QUOTE = "'"
_FILES = pa.schema([("table", pa.string()), ("path", pa.string())])


def explain_record(warehouse: Warehouse, entity: str, record_id: str, field: str | None = None) -> pl.DataFrame:
    """The chain of one field's values in a record, or of all fields', as `CHAIN` with `change_origin` added.

    `record_id` may have 15 characters. Raises `NotExplained` for an entity, record or field that the tables lack.
    """
    table = _history(warehouse, entity)
    fields = _fields(table, entity, field)
    found = all_versions(warehouse, entity, f"Id = '{to_18_characters(record_id).replace(_QUOTE, 2 * _QUOTE)}'")
    rows = arrow_frame(found) if found is not None else pl.DataFrame()
    if rows.is_empty():
        raise NotExplained.no_version(entity, record_id)
    chain = value_chain(rows, fields)
    origins = _origins(warehouse, entity, chain["position"].unique().to_list())
    return chain.join(origins, on=["position", "transaction_key"], how="left", maintain_order="left")


def explain_records(
    spark: SparkSession, warehouse: Warehouse, entity: str, fields: Sequence[str], record_ids: Sequence[str] = ()
) -> DataFrame:
    """The chains of `fields` in many records (all, when no ids are given), as a Spark DataFrame of `CHAIN`.

    Ids may have 15 characters. Tasks read the tables' files themselves; a record's versions meet in one task.
    """
    rows = Table.open(warehouse, current_state.name_of(entity))
    table = _history(warehouse, entity)
    assert rows is not None, entity
    for field in fields:
        _fields(table, entity, field)
    own = ["_valid_from", "_change_type", "_changed_fields", "_position", "_superseded_at", "_commit_user"]
    schema = pa.schema([table.schema.field(name) for name in ("Id", *fields, *own, "_transaction_key", "_batch")])
    part = {
        table.name: Checkpoint.of(rows, channel="").part_of_dataset(history.ENDS_AT),
        rows.name: pc.field("_change_type").is_valid(),
    }
    if record_ids:
        wanted = pc.field("Id").isin([to_18_characters(record_id) for record_id in record_ids])
        part = {name: of & wanted for name, of in part.items()}
    roots = {name: warehouse.filesystem(name) for name in part}

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name, path in zip(batch.column("table").to_pylist(), batch.column("path").to_pylist(), strict=True):
                source = ds.dataset(path, schema=schema, filesystem=roots[name], format="parquet")
                yield from source.to_batches(filter=part[name])

    def chain(versions: pa.Table) -> pa.Table:
        return value_chain(arrow_frame(versions), list(fields)).to_arrow().cast(_CHAIN_ARROW)

    files = [{"table": each.name, "path": file.path} for each in (table, rows) for file in each.files()]
    paths = spark.createDataFrame(pa.Table.from_pylist(files, schema=_FILES))
    versions = paths.repartition(max(1, len(files))).mapInArrow(read, from_arrow_schema(schema))
    return versions.groupBy("Id").applyInArrow(chain, from_arrow_schema(_CHAIN_ARROW))


_CHAIN_ARROW = pa.schema(
    [
        (
            field.name,
            pa.string() if pa.types.is_large_string(field.type) or field.type == pa.string_view() else field.type,
        )
        for field in pl.DataFrame(schema=CHAIN).to_arrow().schema
    ]
)


def _history(warehouse: Warehouse, entity: str) -> Table:
    table = Table.open(warehouse, history.name_of(entity))
    if table is None:
        raise NotExplained.no_history(entity, warehouse.entities(history.LAYER))
    return table


def _fields(table: Table, entity: str, field: str | None) -> list[str]:
    known = [name for name in table.schema.names if not name.startswith("_") and name != "Id"]
    if field is None:
        return known
    found = [name for name in known if name.lower() == field.lower()]
    if not found:
        raise NotExplained.no_field(entity, field, known)
    return found


def _origins(warehouse: Warehouse, entity: str, positions: Sequence[int]) -> pl.DataFrame:
    """`position`, `transaction_key`, `change_origin` of the entity's events."""
    rows = RawEvents.open(warehouse).origins(entity, positions)
    return arrow_frame(rows).unique(["position", "transaction_key"])
