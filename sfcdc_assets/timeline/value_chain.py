"""Who set this value: the chain of a field's values, from the versions of its record."""

from __future__ import annotations

import polars as pl

from sfcdc_assets.timeline.past_rows import FIELD_HISTORY
from sfcdc_assets.timeline.version_columns import IN_ORDER

CHAIN = pl.Schema(
    [
        ("Id", pl.String()),
        ("field", pl.String()),
        ("value", pl.String()),
        ("valid_from", pl.Datetime("us", "UTC")),
        ("valid_to", pl.Datetime("us", "UTC")),
        ("change_type", pl.String()),
        ("commit_user", pl.String()),
        ("transaction_key", pl.String()),
        ("position", pl.Int64()),
        ("change_origin", pl.String()),
    ]
)
"""One row for each value a field had: since when, until when (null: now), and what set it."""


def value_chain(versions: pl.DataFrame, fields: list[str]) -> pl.DataFrame:
    """Return the values of `fields` in each record of `versions` (superseded and current ones), as `CHAIN`, oldest
    first.

    A version is a link of a field's chain when it is the record's first, when the value differs from the one before,
    or when the version names the field among those it changed; a delete and an undelete are links of every field. Where
    field history does not prove the value, the link is of kind UNKNOWN.
    """
    ordered = versions.sort(IN_ORDER, nulls_last=True)
    links = []
    for field in fields:
        value = pl.col(field).cast(pl.String)
        first = pl.col("Id") != pl.col("Id").shift(1)
        named = pl.col("_changed_fields").list.contains(field).fill_null(value=False)
        life = pl.col("_change_type").is_in(["DELETE", "UNDELETE"])
        is_unknown = (pl.col("_change_type") == FIELD_HISTORY) & ~pl.col("_certain_fields").list.contains(field)
        is_unknown = is_unknown.fill_null(value=False)
        differs = value.ne_missing(value.shift(1)) | (is_unknown != is_unknown.shift(1))
        kind = pl.when(is_unknown).then(pl.lit("UNKNOWN")).otherwise("_change_type")
        marked = ordered.with_columns(value.alias("value"), kind.alias("kind")).filter(
            first.fill_null(value=True) | differs | named | life
        )
        links.append(
            marked.select(
                "Id",
                pl.lit(field).alias("field"),
                "value",
                pl.col("_valid_from").alias("valid_from"),
                pl.col("_valid_from").shift(-1).over("Id").alias("valid_to"),
                pl.col("kind").alias("change_type"),
                pl.col("_commit_user").alias("commit_user"),
                pl.col("_transaction_key").alias("transaction_key"),
                pl.col("_position").alias("position"),
                pl.col("_change_origin").alias("change_origin"),
            )
        )
    chain = pl.concat(links) if links else pl.DataFrame(schema=CHAIN)
    return chain.cast(CHAIN).sort("Id", "position", "valid_from", "field", maintain_order=True)
