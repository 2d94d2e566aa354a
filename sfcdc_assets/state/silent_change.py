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
