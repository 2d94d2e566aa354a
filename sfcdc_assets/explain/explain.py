"""Who set this value, for one record or for many, from the tables alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.explain.explanation import NotExplained
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.all_versions import all_versions
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.wanted_entities import NoSuchEntity, entity_named
from sfcdc_assets.salesforce.record_id import to_18_characters
from sfcdc_assets.sql.users import USER, columns_of_name
from sfcdc_assets.timeline.value_chain import CHAIN, value_chain

_QUOTE = "'"
_USER_ID = "^005[A-Za-z0-9]{15}$"
_NO_HISTORY = "it has no history"
_FILES = pa.schema([("table", pa.string()), ("path", pa.string())])


def explain_record(warehouse: Warehouse, entity: str, record_id: str, field: str | None = None) -> pl.DataFrame:
    """Return the chain of one field's values in a record, or of all fields', as `CHAIN`; beside it `commit_user_name`,
    and `value_name` of a value that is a user's id: what they are called now, null where the copy has no such user.

    `record_id` may have 15 characters. The entity may be written in any case. Raises `NoSuchEntity`, and `NotExplained`
    for a record or field that the tables lack.
    """
    entity = entity_named(entity, warehouse.entities(history.LAYER), _NO_HISTORY)
    table = _history(warehouse, entity)
    fields = _fields(table, entity, field)
    found = all_versions(warehouse, entity, f"Id = '{to_18_characters(record_id).replace(_QUOTE, 2 * _QUOTE)}'")
    rows = arrow_frame(found) if found is not None else pl.DataFrame()
    if rows.is_empty():
        raise NotExplained.no_version(entity, record_id)
    return _with_names(warehouse, value_chain(rows, fields))


def _with_names(warehouse: Warehouse, chain: pl.DataFrame) -> pl.DataFrame:
    ids = pl.concat([chain["commit_user"], chain["value"]]).drop_nulls().unique()
    names = _names_of_users(warehouse, ids.filter(ids.str.contains(_USER_ID)).sort().to_list())
    return chain.with_columns(
        pl.col(ids).replace_strict(names, default=None, return_dtype=pl.String).alias(name)
        for ids, name in (("commit_user", "commit_user_name"), ("value", "value_name"))
    )


def _names_of_users(warehouse: Warehouse, user_ids: Sequence[str]) -> dict[str, str]:
    table = Table.open(warehouse, current_state.name_of(USER))
    columns = columns_of_name(table.schema) if table else ()
    if table is None or not columns or not user_ids:
        return {}
    listed = ", ".join(f"'{each}'" for each in user_ids[: current_state.IDS_PER_SCAN])
    rows = table.scan(["Id", *columns], f"Id IN ({listed})").to_pylist()
    return {row["Id"]: " ".join(row[each] for each in columns if row[each]) for row in rows}


def explain_records(
    spark: SparkSession, warehouse: Warehouse, entity: str, fields: Sequence[str], record_ids: Sequence[str] = ()
) -> DataFrame:
    """Return the chains of `fields` in many records (all, when no ids are given), as a Spark DataFrame of `CHAIN`.

    Ids may have 15 characters. Tasks read the tables' files themselves; a record's versions meet in one task.
    """
    rows = Table.open(warehouse, current_state.name_of(entity))
    table = _history(warehouse, entity)
    assert rows is not None, entity
    for field in fields:
        _fields(table, entity, field)
    own = [
        "_valid_from",
        "_change_type",
        "_changed_fields",
        "_certain_fields",
        "_position",
        "_superseded_at",
        "_valid_to",
        "_commit_user",
        "_change_origin",
    ]
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
        raise NoSuchEntity(entity, _NO_HISTORY, warehouse.entities(history.LAYER))
    return table


def _fields(table: Table, entity: str, field: str | None) -> list[str]:
    known = [name for name in table.schema.names if not name.startswith("_") and name != "Id"]
    if field is None:
        return known
    found = [name for name in known if name.lower() == field.lower()]
    if not found:
        raise NotExplained.no_field(entity, field, known)
    return found
