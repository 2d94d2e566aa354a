"""What is reported to a consumer: rows of an entity before and after, as changes. Pure functions on data frames.

A change is the way from one row of a record to a later one: from what the consumer has to what the tables have now, or,
version by version, from each to the next. Two changes that follow one another are one: the second's row is the row, and
the first's values before are the values before.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.timeline.version_columns import IN_ORDER, SYSTEM_COLUMNS

INSERT, UPDATE, DELETE, UNDELETE = "insert", "update", "delete", "undelete"
OF_A_ROW = (
    "_is_deleted",
    "_deleted_reason",
    "_certain",
    "_commit_user",
    "_commit_timestamp",
    "_change_origin",
    "_position",
)
"""What is reported of a row beside its fields."""
_ORDER = tuple(name for name in IN_ORDER if name != "Id")
_SYSTEM = frozenset({*SYSTEM_COLUMNS.names, "_valid_to", "_superseded_at"})


def fields_of(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table that are the entity's, with `Id`."""
    return pa.schema([field for field in schema if field.name not in _SYSTEM])


def changes_schema(table: pa.Schema) -> pa.Schema:
    """Return the schema of changes of an entity: `Id`, `_op`, its fields after, `_before`: the changed ones before,
    `_changed_fields`, and what is said of the row after."""
    fields = fields_of(table)
    values = [field for field in fields if field.name != "Id"]
    types = {each.name: each.type for each in SYSTEM_COLUMNS} | {"_certain": pa.bool_()}
    return pa.schema(
        [
            fields.field("Id"),
            ("_op", pa.string()),
            *values,
            ("_before", pa.struct([pa.field(each.name, each.type) for each in values])),
            ("_changed_fields", pa.list_(pa.string())),
            *((name, types[name]) for name in OF_A_ROW if name != "_is_deleted"),
        ]
    )


def rows_schema(table: pa.Schema) -> pa.Schema:
    """Return the schema of rows that changes are made of: the entity's fields, and what says which comes first."""
    types = {each.name: each.type for each in SYSTEM_COLUMNS} | {"_certain": pa.bool_()}
    order = [(name, types.get(name, pa.int64())) for name in _ORDER if name != "_valid_to"]
    own = [(name, types[name]) for name in OF_A_ROW if name not in _ORDER]
    return pa.schema([*fields_of(table), *own, *order, ("_valid_to", types["_valid_from"])])


def changes_of(before: pl.DataFrame, between: pl.DataFrame, after: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """Return the changes (`changes_schema`) from what a consumer has to what there is now, by record and in order.

    `before`: at most one row of a record; `between`: versions that came after it; `after`: the rows now, one of a
    record, each of which is reported. All as `rows_schema`.
    """
    frame = pl.concat(
        [each.with_columns(rank=pl.lit(rank, pl.Int8)) for rank, each in enumerate((before, between, after))]
    ).sort("Id", "rank", *_ORDER, nulls_last=True)
    names = [name for name in schema.names if name in frame.columns and name not in ("Id", *OF_A_ROW)]
    follows = (frame["Id"] == frame["Id"].shift(1)).fill_null(value=False)
    differs = frame.select(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in names)
    was_deleted = (frame["_is_deleted"].shift(1) & follows).fill_null(value=False)
    reported = frame["rank"] > 0
    values = frame.select(
        pl.when(follows & differs[name]).then(pl.col(name).shift(1)).alias(name) for name in names
    ).filter(reported)
    marks = differs.filter(reported)
    rows = frame.with_columns(follows=follows, was_deleted=was_deleted).filter(reported)
    has_before = rows["follows"]
    operation = (
        pl.when("_is_deleted")
        .then(pl.lit(DELETE))
        .when(~pl.col("follows"))
        .then(pl.lit(INSERT))
        .when("was_deleted")
        .then(pl.lit(UNDELETE))
        .otherwise(pl.lit(UPDATE))
    )
    changed = marks.select(
        pl.concat_list(pl.when(pl.col(name)).then(pl.lit(name)) for name in names).list.drop_nulls().alias("names")
        if names
        else pl.lit(None, pl.List(pl.String)).alias("names")
    )
    whole = rows.with_columns(
        operation.alias("_op"),
        pl.when(has_before).then(values.to_struct("_before")).alias("_before")
        if names
        else pl.lit(None).alias("_before"),
        pl.when(has_before).then(changed["names"]).alias("_changed_fields"),
    )
    return whole.select(schema.names).to_arrow().cast(schema)


def inserts(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return living rows (`rows_schema`) as inserts, without a look at any of them."""
    count = rows.num_rows
    made = {"_op": pa.repeat(pa.scalar(INSERT), count)}
    return pa.table(
        [
            made[field.name]
            if field.name in made
            else rows[field.name]
            if field.name in rows.column_names
            else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def first_of_each(versions: pl.DataFrame) -> pl.DataFrame:
    """Return the first version of each record (`rows_schema`)."""
    return versions.sort("Id", *_ORDER, nulls_last=True).unique("Id", keep="first", maintain_order=True)


def parted(versions: pl.DataFrame, there: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the first version of each record that is `there` (`Id`), and all others, in order."""
    ordered = versions.sort("Id", *_ORDER, nulls_last=True).with_row_index("at")
    first = ordered.unique("Id", keep="first", maintain_order=True).join(there, on="Id", how="semi")
    others = ordered.join(first.select("at"), on="at", how="anti", maintain_order="left")
    return first.drop("at"), others.drop("at")


def later_than(versions: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Return the versions that come after the row that a consumer has of their record; all where it has none."""
    had = before.select("Id", *(pl.col(name).alias(f"had{name}") for name in ("_position", "_superseded_at")))
    met = versions.join(had, on="Id", how="left", maintain_order="left")
    is_later = (
        pl.col("had_position").is_null()
        | (pl.col("_position") > pl.col("had_position"))
        | ((pl.col("_position") == pl.col("had_position")) & (pl.col("_superseded_at") > pl.col("had_superseded_at")))
    )
    return met.filter(is_later.fill_null(value=False)).select(versions.columns)


def no_rows(table: pa.Schema) -> pl.DataFrame:
    """Return none, as `rows_schema`."""
    return empty_rows(rows_schema(table))


def columns_read(table: Sequence[str]) -> list[str]:
    """Return the columns of a table that rows are made of."""
    skipped = {"_transaction_key", "_changed_fields", "_read_position"}
    return [name for name in table if name not in skipped]


def as_rows(read: pa.Table, schema: pa.Schema) -> pl.DataFrame:
    """Return rows of `current_state` or `history` as `rows_schema` (`schema`); a column that a table lacks reads
    null."""
    frame = pl.DataFrame(read)
    suspect = pl.col("_in_doubt").fill_null(value=False) if "_in_doubt" in frame.columns else pl.lit(value=False)
    certain = pl.col("_certain_fields").is_null() & ~suspect
    shape = empty_rows(schema).schema
    lacking = {name: pl.lit(None, dtype) for name, dtype in shape.items() if name not in frame.columns}
    return frame.with_columns(**{**lacking, "_certain": certain}).select(list(shape)).cast(shape)
