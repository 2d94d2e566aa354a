"""Changes that no event of a record tells, but the row of another one does.

An account that becomes a person, or ceases to be one, changes `IsPersonAccount` of its contact; the contact has no
event of it (facts section 7, "Person accounts"). The account's `PersonContactId` then changes, and that is noticed
whatever brought it into the row: an event, a reading, a snapshot.
"""

from __future__ import annotations

import polars as pl

POINTER = "PersonContactId"
"""The column of `Account`, in orgs with person accounts."""
POINTED_AT = "Contact"


def silently_changed(before: pl.DataFrame, after: pl.DataFrame) -> list[dict[str, object]]:
    """Records (`record_id`, `position`, `detail`) of `POINTED_AT` that changed with the rows, `before` and `after`.

    A row that is new tells nothing: the other record is new as well, and has an event of its own.
    """
    if POINTER not in before.columns:
        return []
    # A row without a time is of a record that was never seen, only named: what it pointed at is not known.
    known = before.filter(pl.col("_commit_timestamp").is_not_null()).select("Id", pl.col(POINTER).alias("was"))
    moved = (
        after.select("Id", pl.col("_position").alias("position"), pl.col(POINTER).alias("is"))
        .join(known, on="Id")
        .filter(pl.col("is").ne_missing(pl.col("was")))
    )
    named = moved.unpivot(["was", "is"], index=["Id", "position"], value_name="record_id").drop_nulls("record_id")
    detail = pl.format("Account {} has another {}", "Id", pl.lit(POINTER))
    return named.select("record_id", "position", detail.alias("detail")).to_dicts()


def dated_by_reading(reads: pl.DataFrame, base: pl.DataFrame) -> pl.DataFrame:
    """The reads as history dates them: by `_system_modstamp`, which a silent change leaves as it was.

    A row that nothing held, and that the org has not modified since by its own account, had its values until it was
    read, for all that is known; `_read_at` stands in for the time.
    """
    free = base.filter(~pl.col("_in_doubt")).select("Id", pl.col("_commit_timestamp").alias("told_at"))
    dated = reads.join(free, on="Id", how="left", maintain_order="left").with_columns(
        pl.when(pl.col("_system_modstamp") <= pl.col("told_at"))
        .then(pl.col("_read_at"))
        .otherwise(pl.col("_system_modstamp"))
        .alias("_system_modstamp")
    )
    return dated.select(reads.columns)
