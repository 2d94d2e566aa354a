"""Rows of `history` for the versions that field history tells of: which records have a first version with something
before it, and how what was folded stands before that.

Such a version stands at the position of the record's first version and ends there: it is valid for a time, and for no
position of its own. So it comes before the first version in every order of versions, and is gone wherever that one is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.timeline.past_versions import FirstVersion, Folded
from sfcdc_assets.timeline.version_columns import IN_ORDER, STAMP

FIELD_HISTORY = "FIELD_HISTORY"
"""`_change_type` of these versions."""
_NOTHING_BEFORE = (FIELD_HISTORY, "CREATE", "GAP_CREATE")
LOOKED_AT = (*IN_ORDER, "_change_type", "_certain_fields")
"""The columns, beside the values, by which first versions are found."""


def first_versions(versions: pl.DataFrame) -> pl.DataFrame:
    """Return the oldest of each record's versions (with `LOOKED_AT`), in the order of Ids."""
    return versions.sort(IN_ORDER, nulls_last=True).unique("Id", keep="first", maintain_order=True)


def without_a_past(firsts: pl.DataFrame) -> pl.DataFrame:
    """Return those first versions before which there may be others: nothing is before a creation, nor before versions
    from field history."""
    return firsts.filter(~pl.col("_change_type").is_in(_NOTHING_BEFORE))


def first_version(row: Mapping[str, Any], columns: Iterable[Column]) -> FirstVersion:
    """Return a first version with its values in those of the columns that the tables had at its position."""
    values = {column.name: row[column.name] for column in columns if column.came_at <= row["_position"]}
    return FirstVersion(values, row["_valid_from"], row["_certain_fields"])


def past_rows(folded: Folded, first: Mapping[str, Any], batch: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of what was folded back from a record's first version, oldest first; columns that they lack are
    null, because their values are not known."""
    for version in folded.versions:
        yield {
            **version.values,
            "Id": first["Id"],
            "_is_deleted": False,
            "_position": first["_position"],
            "_commit_timestamp": version.valid_from,
            "_commit_user": version.commit_user,
            "_valid_from": version.valid_from,
            "_dated_by": STAMP,
            "_change_type": FIELD_HISTORY,
            "_changed_fields": version.changed_fields,
            "_certain_fields": version.certain_fields,
            "_batch": batch,
            "_valid_to": version.valid_to,
            "_superseded_at": first["_position"],
        }


def kept_before(past: pl.DataFrame, firsts: pl.DataFrame, batch: int) -> pl.DataFrame:
    """Return those rows from field history (`past`) that still lead up to a record's first version, at its position:
    after a rebuild a record may begin with a later one, and a hole is worse than an unknown past."""
    ends = past.group_by("Id").agg(pl.col("_valid_to").max().alias("until"))
    begins = without_a_past(firsts).select("Id", pl.col("_valid_from").alias("until"), pl.col("_position").alias("at"))
    meeting = ends.join(begins, on=["Id", "until"], how="inner").select("Id", "at")
    return (
        past.join(meeting, on="Id", how="inner")
        .with_columns(_position="at", _superseded_at="at", _batch=pl.lit(batch, pl.Int64))
        .drop("at")
        .sort("Id", "_valid_from")
    )


def kept_of_earlier_reads(past: pl.DataFrame, firsts: pl.DataFrame, batch: int) -> pl.DataFrame:
    """Return those versions (`past`) that lead up to a record's first version, where that is a read of the org that
    came later than they did: the entity has got another channel since, or payloads are not kept any more, so nothing
    that is left would make them again. The read says when its record was changed last in whole seconds, so the version
    before it may have to end a little earlier than it did."""
    begins = without_a_past(firsts).select("Id", pl.col("_valid_from").alias("begins"), pl.col("_position").alias("at"))
    before = past.join(begins, on="Id", how="inner").filter(
        (pl.col("_superseded_at") <= pl.col("at")) & (pl.col("_valid_from") < pl.col("begins"))
    )
    is_last = pl.col("_valid_to") >= pl.col("begins")
    meets = is_last.any().over("Id")
    return (
        before.filter(meets)
        .with_columns(
            _valid_to=pl.min_horizontal("_valid_to", "begins"),
            _superseded_at=pl.when(is_last).then(pl.col("at")).otherwise(pl.col("_superseded_at")),
            _batch=pl.lit(batch, pl.Int64),
        )
        .drop("begins", "at")
        .sort("Id", "_valid_from")
    )
