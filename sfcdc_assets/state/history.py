"""History: one row for every version of a record (slowly changing dimension, type 2).

A record's versions follow one another in position order; a version is valid from its commit until the next one's. The
last version of each record is open (`_valid_to` null) and lies in the leaf of its Id, beside the record's current row;
a batch rewrites the open versions of the leaves it touches and appends those it closes, so it costs what it touches and
not what the history holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.state.cell_types import FROM_MEMBER

VERSION_COLUMNS = pa.schema(
    [
        ("_valid_from", pa.timestamp("us", "UTC")),
        ("_valid_to", pa.timestamp("us", "UTC")),
        ("_change_type", pa.string()),
        ("_changed_fields", pa.list_(pa.string())),
        ("_position", pa.int64()),
        ("_commit_user", pa.string()),
        ("_transaction_key", pa.string()),
    ]
)
"""`_change_type`: CREATE, UPDATE, DELETE or UNDELETE as the event said; SNAPSHOT for a row's first reading, REFETCH for
values read back. A DELETE version keeps the last values. `_changed_fields` names the columns that the version set
(UPDATE) or that were found to differ (SNAPSHOT, REFETCH); null where it set them all."""

READ_TYPES = ("SNAPSHOT", "REFETCH")

SKEW_US = 2_000_000
"""Commit times of one database may differ by a second or two (facts section 7)."""


def history_schema(columns: Sequence[Column]) -> pa.Schema:
    """Arrow schema of the table: the columns of `current_state` that are the entity's own, then `VERSION_COLUMNS`."""
    return pa.schema([*arrow_schema(columns), *VERSION_COLUMNS])


@dataclass(frozen=True)
class Versions:
    """The leaf's open versions after a batch, the versions closed by it, and how many versions are new."""

    open: pl.DataFrame
    closed: pl.DataFrame
    added: int


def next_versions(
    opened: pl.DataFrame, changes: pl.DataFrame, reads: pl.DataFrame, columns: Sequence[Column]
) -> Versions:
    """Follow each record from its open version through its changes and reads.

    `opened`: open versions (`history_schema`); `changes`: applied changes (`CHANGES`, diffs replaced); `reads`: rows
    read from the org (columns, `READ_COLUMNS`, `read_type`, `_read_at`). What an open version already stands for is
    left out, and so is a read that tells nothing new, so that a repetition adds nothing.
    """
    steps = _steps(opened, changes, reads)
    if steps.is_empty():
        return Versions(opened, opened.clear(), 0)
    concerned = steps.select(pl.col("record_id").alias("Id")).unique()
    start = opened.join(concerned, on="Id", how="semi")
    rows = _fill(steps, start, changes, reads, columns)
    kept = rows.filter(~pl.col("tells_nothing"))
    followed = kept.with_columns(pl.col("_valid_from").cum_max().over("Id").alias("_valid_from")).with_columns(
        pl.col("_valid_from").shift(-1).over("Id").alias("_valid_to")
    )
    last = pl.col("Id") != pl.col("Id").shift(-1)
    followed = followed.with_columns(last.fill_null(True).alias("is_last"))
    shape = opened.columns
    others = opened.join(concerned, on="Id", how="anti")
    new_open = pl.concat([others, followed.filter("is_last").select(shape).cast(opened.schema)]).sort("Id")
    closed = followed.filter(~pl.col("is_last")).select(shape).cast(opened.schema)
    return Versions(new_open, closed, kept.filter(pl.col("source") != "open").height)


def versions_as_of(versions: pl.DataFrame, position: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The open and the closed ones of `versions` as they were when the stream was applied up to `position`."""
    kept = versions.filter(pl.col("_position") <= position).sort(
        "Id", "_position", "_valid_from", "_valid_to", nulls_last=True
    )
    last = (pl.col("Id") != pl.col("Id").shift(-1)).fill_null(True)
    return kept.filter(last).with_columns(pl.lit(None, versions.schema["_valid_to"]).alias("_valid_to")), kept.filter(
        ~last
    )


def _steps(opened: pl.DataFrame, changes: pl.DataFrame, reads: pl.DataFrame) -> pl.DataFrame:
    """One row for each step of a record that takes one, its open version first; `row` is its place in its source."""
    stands = opened.select(
        pl.col("Id").alias("record_id"),
        pl.col("_position").alias("stands_at"),
        pl.when(pl.col("_change_type").is_in(READ_TYPES)).then(pl.col("_valid_from")).alias("read_to"),
    )
    from_changes = (
        changes.with_row_index("row")
        .join(stands, on="record_id", how="left", maintain_order="left")
        .filter(pl.col("position") > pl.col("stands_at").fill_null(-1))
        # A read that is younger than the event has the event in it already.
        .filter(
            pl.col("read_to").is_null()
            | (pl.col("commit_timestamp") + pl.duration(microseconds=SKEW_US) >= pl.col("read_to"))
        )
        .select(
            "record_id",
            "position",
            pl.lit(0, pl.Int8).alias("after"),
            pl.lit("change").alias("source"),
            "row",
            pl.col("change_type").alias("_change_type"),
            pl.col("commit_timestamp").alias("_valid_from"),
            pl.col("commit_user").alias("_commit_user"),
            pl.col("transaction_key").alias("_transaction_key"),
        )
    )
    user = pl.col("LastModifiedById") if "LastModifiedById" in reads.columns else pl.lit(None, pl.String)
    from_reads = (
        reads.with_row_index("row")
        .join(stands, left_on="Id", right_on="record_id", how="left", maintain_order="left")
        .filter(pl.col("_position") >= pl.col("stands_at").fill_null(-1))
        .select(
            pl.col("Id").alias("record_id"),
            pl.col("_position").alias("position"),
            pl.lit(1, pl.Int8).alias("after"),
            pl.lit("read").alias("source"),
            "row",
            pl.when(pl.col("_is_deleted")).then(pl.lit("DELETE")).otherwise(pl.col("read_type")).alias("_change_type"),
            pl.coalesce("_system_modstamp", "_read_at").alias("_valid_from"),
            user.alias("_commit_user"),
            pl.lit(None, pl.String).alias("_transaction_key"),
        )
    )
    news = pl.concat([from_changes, from_reads])
    from_open = (
        opened.with_row_index("row")
        .join(news.select(pl.col("record_id").alias("Id")).unique(), on="Id", how="semi", maintain_order="left")
        .select(
            pl.col("Id").alias("record_id"),
            pl.col("_position").alias("position"),
            pl.lit(-1, pl.Int8).alias("after"),
            pl.lit("open").alias("source"),
            "row",
            "_change_type",
            "_valid_from",
            "_commit_user",
            "_transaction_key",
        )
    )
    first = pl.col("source") == "open"
    ordered = pl.concat([from_open, news]).sort("record_id", ~first, "position", "after", "row", maintain_order=True)
    return ordered.with_row_index("step")


def _fill(
    steps: pl.DataFrame, start: pl.DataFrame, changes: pl.DataFrame, reads: pl.DataFrame, columns: Sequence[Column]
) -> pl.DataFrame:
    """Each step with the record's values after it; `tells_nothing` marks reads that equal the version before."""
    count = steps.height
    record_ids = steps["record_id"]
    begins = (record_ids != record_ids.shift(1)).fill_null(True).to_numpy()
    at_open = _places(steps, "open", start.select(pl.col("Id").alias("record_id")))
    read_rows = steps.filter(pl.col("source") == "read").select("step", "row")
    present = read_rows.join(
        reads.with_row_index("row").filter(pl.col("_system_modstamp").is_not_null()).select("row", "_unread"), on="row"
    )
    unread = set(present["_unread"].explode().drop_nulls().to_list())
    change_rows = steps.filter(pl.col("source") == "change").select("step", "row")
    cells = (
        changes.with_row_index("row")
        .select("row", "cells")
        .join(change_rows, on="row", how="inner")
        .filter(pl.col("cells").list.len() > 0)
        .explode("cells")
        .unnest("cells")
    )
    of_column = {key[0]: frame for key, frame in cells.partition_by("column", as_dict=True, include_key=False).items()}
    is_read = np.zeros(count, bool)
    is_read[read_rows["step"].to_numpy()] = True
    differs = np.zeros(count, bool)
    filled = {"Id": record_ids.alias("Id")}
    changed: dict[str, np.ndarray] = {}
    for index, column in enumerate(columns):
        if column.name == "Id":
            continue
        member, dtype = FROM_MEMBER[column.type]
        values = pl.Series(column.name, [None], dtype=dtype).new_from_index(0, count)
        known = begins.copy()
        told = present
        if column.name in unread:
            told = present.filter(~pl.col("_unread").list.contains(column.name).fill_null(False))
        for step, source in (
            (at_open, start.get_column(column.name)),
            (told["step"], reads.get_column(column.name).gather(told["row"])),
            (of_column[index]["step"], of_column[index].get_column(member)) if index in of_column else (None, None),
        ):
            if step is not None and source is not None and len(step):
                values = values.scatter(step, source.cast(dtype))
                known[step.to_numpy()] = True
        holds = np.maximum.accumulate(np.where(known, np.arange(count), 0))
        series = values.gather(pl.Series(holds)).alias(column.name)
        filled[column.name] = series
        unequal = series.ne_missing(series.shift(1)).to_numpy() & ~begins
        differs |= unequal
        named = np.zeros(count, bool)
        if index in of_column:
            named[of_column[index]["step"].to_numpy()] = True
        # What became of a value that did not convert is the field's own change.
        field = column.kept_from or column.name
        changed[field] = changed.get(field, np.zeros(count, bool)) | named | (is_read & unequal)
    marks = pl.DataFrame(changed).select(
        pl.concat_list(pl.when(pl.col(name)).then(pl.lit(name)) for name in changed).list.drop_nulls().alias("fields")
    )
    kind, source = steps["_change_type"], steps["source"]
    partial = kind.is_in(["UPDATE"]).to_numpy() | (is_read & ~begins)
    same_kind = (kind.eq_missing("DELETE") == kind.shift(1).eq_missing("DELETE")).to_numpy()
    tells_nothing = is_read & ~differs & ~begins & same_kind
    rows = pl.DataFrame(list(filled.values())).with_columns(
        steps["_valid_from"],
        kind,
        pl.when(pl.Series(partial)).then(marks["fields"]).alias("_changed_fields"),
        steps["position"].alias("_position"),
        steps["_commit_user"],
        steps["_transaction_key"],
        source,
        pl.Series("tells_nothing", tells_nothing),
    )
    return _keep_open_marks(rows, start)


def _keep_open_marks(rows: pl.DataFrame, start: pl.DataFrame) -> pl.DataFrame:
    """An open version keeps the changed fields it was written with."""
    kept = start.select("Id", pl.col("_changed_fields").alias("kept_fields"))
    return (
        rows.join(kept, on="Id", how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("source") == "open")
            .then(pl.col("kept_fields"))
            .otherwise(pl.col("_changed_fields"))
            .alias("_changed_fields")
        )
        .drop("kept_fields")
    )


def _places(steps: pl.DataFrame, source: str, order: pl.DataFrame) -> pl.Series:
    """Step numbers of a source's rows, in the order of `order`'s record ids."""
    of_source = steps.filter(pl.col("source") == source).select("record_id", "step")
    return order.join(of_source, on="record_id", how="left", maintain_order="left")["step"]
