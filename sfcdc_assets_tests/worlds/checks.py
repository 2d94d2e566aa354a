"""What must hold in every small world after every batch: the tables against the org (`worlds.org`), at each position.

A read may be ahead of its watermark. Between its watermark and what it shows, its record's row and versions may be
newer than their position says; that is the one thing that is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sfcdc_assets.timeline.version_columns import OF_THE_ROW
from sfcdc_assets_tests.worlds.memory_tables import Tables
from sfcdc_assets_tests.worlds.org import FIELDS

NEVER = 1_000
"""A position after all others."""


@dataclass(frozen=True)
class Difference:
    """What does not hold, and in which records (or of which)."""

    what: str
    rows: pl.DataFrame


def differences(tables: Tables) -> list[Difference]:
    """Return what does not hold of the tables after a batch."""
    reported = _reported(tables)
    rows, past = tables.rows, tables.superseded
    current = rows.filter(pl.col("_change_type").is_not_null()).with_columns(
        pl.lit(None, pl.Int64).alias("_superseded_at")
    )
    names = [name for name in past.columns if name in current.columns and name not in OF_THE_ROW]
    versions = pl.concat([past.select(names), current.select(names)])
    found = [
        Difference("one row of a record", rows.filter(pl.col("Id").is_duplicated())),
        *_of_rows(rows, reported),
        *_of_versions(versions, reported, tables),
        *_of_texts(tables),
    ]
    return [each for each in found if each.rows.height]


def _reported(tables: Tables) -> pl.DataFrame:
    """Return of each record what can be known: `known`, the position up to which all is told, by events or a read;
    `doubt`, that of the first event after its last read which does not tell all; `ahead`, up to where reads show more
    than their watermarks say, and `ahead_from`; `unseen`: nothing was ever told about the record as a whole."""
    truth, applied = tables.stories.truth, tables.checkpoint.position
    ids = truth.filter(pl.col("at") == 0).select("Id", "story", "is_hidden")
    everyone = ids.select("Id")
    reads = []
    first = tables.snapshots[0]
    for taken in (*tables.snapshots, *tables.read_backs):
        whom = everyone if taken.reading.is_snapshot else taken.rows.select("Id")
        if taken is first:
            whom = ids.filter(~pl.col("is_hidden")).select("Id")
        reads.append(
            whom.with_columns(
                watermark=pl.lit(taken.reading.watermark, pl.Int64),
                shows=pl.lit(taken.reading.shows, pl.Int64),
                is_ahead=pl.lit(taken.reading.shows > taken.reading.watermark),
            )
        )
    of_reads = (
        pl.concat(reads)
        .group_by("Id")
        .agg(
            pl.col("watermark").max().alias("read"),
            pl.col("watermark").filter("is_ahead").min().alias("ahead_from"),
            pl.col("shows").filter("is_ahead").max().alias("ahead"),
        )
    )
    floor = first.reading.watermark
    reported_whole = (
        tables.stories.changes.filter(
            pl.col("change_type").is_in(["CREATE", "UNDELETE"]), pl.col("position").is_between(floor + 1, applied)
        )
        .group_by(pl.col("record_id").alias("Id"))
        .agg(pl.col("position").min().alias("whole"))
    )
    met = ids.join(of_reads, on="Id", how="left", maintain_order="left").join(
        reported_whole, on="Id", how="left", maintain_order="left"
    )
    since = pl.max_horizontal(pl.lit(floor), pl.col("read").fill_null(-1))
    open_entries = [each for each in tables.noted if each > tables.snapshots[-1].reading.watermark]
    met = met.with_columns(since=since, applied=pl.lit(applied)).with_columns(
        known=pl.max_horizontal("applied", "read")
    )
    opening = (
        tables.stories.opening.join(met, on="Id", how="inner")
        .filter(
            pl.col("position").is_between(pl.col("since") + 1, pl.col("applied")),
            ~pl.col("on_hidden")
            | (
                pl.col("is_hidden") & pl.col("read").is_null() & (pl.col("position") < pl.col("whole").fill_null(NEVER))
            ),
        )
        .group_by("Id")
        .agg(
            pl.col("position").min().alias("doubt"),
            (
                ~pl.col("is_diff")
                | ~pl.col("position").is_between(pl.col("ahead_from") + 1, pl.col("ahead")).fill_null(value=False)
            )
            .any()
            .alias("is_surely_open"),
        )
    )
    return (
        met.join(opening, on="Id", how="left", maintain_order="left")
        .with_columns(
            pl.col("doubt").fill_null(NEVER),
            pl.col("is_surely_open").fill_null(value=False),
            pl.col("ahead").fill_null(-1),
            pl.col("ahead_from").fill_null(NEVER),
            unseen=pl.col("is_hidden") & pl.col("read").is_null() & pl.col("whole").is_null(),
            is_entity_open=pl.col("read").fill_null(-1) < min(open_entries, default=-1),
        )
        .join(truth, left_on=["Id", "known"], right_on=["Id", "at"], how="left", maintain_order="left", suffix="_now")
    )


def _of_rows(rows: pl.DataFrame, reported: pl.DataFrame) -> list[Difference]:
    names = (*FIELDS, "_is_deleted", "_in_doubt", "_certain_fields")
    of_rows = rows.select("Id", *(pl.col(name).alias(f"row_{name}") for name in names))
    met = reported.join(of_rows, on="Id", how="left", maintain_order="left")
    has_row = pl.col("row__in_doubt").is_not_null()
    must_doubt = pl.col("is_surely_open") | (pl.col("is_entity_open") & (pl.col("row__is_deleted") == pl.lit(False)))
    may_doubt = must_doubt | (pl.col("doubt") < NEVER) | pl.col("is_entity_open") | (pl.col("ahead") > -1)
    in_doubt = pl.col("row__in_doubt").fill_null(value=False)
    is_past = pl.col("ahead") <= pl.col("known")
    sure = ~in_doubt & ~must_doubt & is_past
    lives = pl.col("life")
    differ = [
        pl.col(f"row_{name}").ne_missing(pl.col(name))
        & (pl.col("row__certain_fields").is_null() | pl.col("row__certain_fields").list.contains(name))
        for name in FIELDS
    ]
    return [
        Difference("a record of which not all is told is suspect", met.filter(must_doubt & ~in_doubt)),
        Difference("a record of which all is told is not suspect", met.filter(in_doubt & ~may_doubt)),
        Difference(
            "a record that is there has a row",
            met.filter(sure & ~has_row & (lives != "absent") & ~pl.col("unseen")),
        ),
        Difference(
            "a row says whether its record is deleted",
            met.filter(sure & has_row & ~pl.col("unseen") & (pl.col("row__is_deleted") != (lives != "alive"))),
        ),
        Difference(
            "a row has its record's values",
            met.filter(sure & has_row & (lives != "absent") & pl.any_horizontal(differ)),
        ),
        Difference(
            "all values of a row that is not suspect are certain",
            met.filter(
                sure & has_row & (lives != "absent") & ~pl.col("unseen") & pl.col("row__certain_fields").is_not_null()
            ),
        ),
    ]


def _of_versions(versions: pl.DataFrame, reported: pl.DataFrame, tables: Tables) -> list[Difference]:
    ends = pl.coalesce("_superseded_at", pl.min_horizontal(pl.col("known") + 1, "doubt"))
    timed = versions.join(
        reported.select("Id", "known", "doubt", "ahead", "ahead_from"), on="Id", how="left"
    ).with_columns(end=ends)
    at_each = timed.join(
        tables.stories.truth.select("Id", "at", "life", *(pl.col(name).alias(f"true_{name}") for name in FIELDS)),
        on="Id",
        how="left",
    ).filter(
        pl.col("at").is_between("_position", pl.col("end") - 1),
        (pl.col("at") < pl.col("ahead_from")) | (pl.col("at") >= pl.col("ahead")),
    )
    wrong = [
        pl.col(name).ne_missing(pl.col(f"true_{name}"))
        & (pl.col("_certain_fields").is_null() | pl.col("_certain_fields").list.contains(name))
        for name in FIELDS
    ]
    events = tables.stories.changes.select(pl.col("record_id").alias("Id"), pl.col("position").alias("_position"))
    of_events = (
        versions.filter(pl.col("_transaction_key").is_not_null())
        .group_by("Id", "_position")
        .agg(pl.len().alias("versions"))
    )
    floor = tables.snapshots[0].reading.watermark
    due = (
        events.join(
            reported.select("Id", "story", "known", "doubt", "ahead", "is_entity_open", "unseen"), on="Id", how="left"
        )
        .filter(
            pl.col("_position") > floor,
            pl.col("_position") <= tables.checkpoint.position,
        )
        .join(of_events, on=["Id", "_position"], how="full", coalesce=True)
    )
    lost = pl.col("versions").is_null() & (pl.col("_position") < pl.col("doubt")) & (pl.col("ahead") < 0)
    return [
        Difference(
            "at each position a version is what its record was",
            at_each.filter((pl.col("life") != "absent") & pl.any_horizontal(wrong)),
        ),
        Difference("each event is a version", due.filter(lost)),
        Difference("no event is two versions", due.filter(pl.col("versions") > 1)),
        Difference("versions follow one another", _holes(versions)),
    ]


def _holes(versions: pl.DataFrame) -> pl.DataFrame:
    """Return versions that do not end where the next one of their record begins."""
    ordered = versions.sort("Id", "_position", "_superseded_at", "_valid_from", nulls_last=True)
    follows = (pl.col("Id") == pl.col("Id").shift(-1)).fill_null(value=False)
    following = pl.when(follows).then(pl.col("_position").shift(-1))
    return ordered.filter(pl.col("_superseded_at").ne_missing(following))


def _of_texts(tables: Tables) -> list[Difference]:
    texts = tables.known_texts.filter(pl.col("origin").is_in(["full", "diff"]))
    met = texts.join(
        tables.stories.truth.select("Id", "at", "Description"),
        left_on=["record_id", "position"],
        right_on=["Id", "at"],
        how="left",
    )
    twice = texts.filter(pl.struct("record_id", "field", "position").is_duplicated())
    return [
        Difference("a text is what its record had", met.filter(pl.col("value").ne_missing(pl.col("Description")))),
        Difference("a text is there once", twice),
    ]
