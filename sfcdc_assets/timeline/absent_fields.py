"""Fields that the object lacked for a while, or hid from the user: what is known of their values then, and after it.

While a field is hidden its events carry null in place of its value, or nothing, so neither a null nor an event that
does not name the field says anything of it. A value that an event does carry was sent before, and is applied; it is not
certain, because nothing that follows it is, and the row alone has to say so to the next batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sfcdc_assets.change_events.cell_lists import MEMBERS
from sfcdc_assets.change_events.columns import Absence, Column
from sfcdc_assets.timeline.follow_records import Flags, Places, Segments


def without_nulls_of_absent(changes: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Return changes (`CHANGES`) without the nulls of fields that were absent at their positions.

    A field whose type was changed has a cell in each of its columns, null but in the one whose type the value has
    (`change_events.retyping`). It is null where all of them are.
    """
    kept_of: dict[str | None, list[int]] = {}
    for index, column in enumerate(columns):
        kept_of.setdefault(column.kept_from, []).append(index)
    fields_of: dict[tuple[Absence, ...], list[tuple[int, ...]]] = {}
    for index, column in enumerate(columns):
        if column.absences:
            fields_of.setdefault(column.absences, []).append((index, *kept_of.get(column.name, ())))
    positions = changes["position"].to_numpy() if fields_of else np.zeros(0, np.int64)
    for absences, fields in fields_of.items():
        is_absent = pl.Series(absent_at(absences, positions))
        if is_absent.any():
            changes = _without_nulls(changes, [index for index, *kept in fields if not kept], is_absent)
            for field in fields:
                if len(field) > 1:
                    has_value = changes["cells"].list.eval(_is_of(field) & ~_IS_NULL).list.any()
                    changes = _without_nulls(changes, field, is_absent & ~has_value)
    return changes


_IS_NULL = pl.all_horizontal(pl.element().struct.field(member).is_null() for member in MEMBERS)


def _is_of(columns: Sequence[int]) -> pl.Expr:
    return pl.element().struct.field("column").is_in(columns)


def _without_nulls(changes: pl.DataFrame, columns: Sequence[int], where: pl.Series) -> pl.DataFrame:
    """Return the changes, those `where` it says so without the null cells of the columns."""
    kept = pl.col("cells").list.filter(~(_is_of(columns) & _IS_NULL))
    return changes.with_columns(pl.when(where).then(kept).otherwise("cells").alias("cells"))


def absent_at(absences: Sequence[Absence], positions: Places) -> Flags:
    """Return whether each position is in one of the absences."""
    is_absent = np.zeros(len(positions), bool)
    for each in absences:
        is_absent |= (positions >= each.since) & (positions < (np.inf if each.until is None else each.until))
    return is_absent


class Steps:
    """What the absences of a field are to steps of records, which stand at `positions`; `is_change`: those of events.

    `opens`: the value is not known from there on, unless the step proves it; `disproves`: nor is it where the step
    says so. `is_implied`: the absence says that it is open, not the list of the version, which may be from before it
    was known when the field comes back; `is_listed`: the absence began as the column came or came back, so that the
    lists of rows are from after that, and reads show the field; `crosses`: a record's steps are not all on the same
    side of an absence."""

    def __init__(self, column: Column, positions: Places, segments: Segments, is_change: Flags) -> None:
        absences = column.absences
        is_absent = absent_at(absences, positions)
        came = {column.came_at, *(each.until for each in absences)}
        self.is_implied = absent_at([each for each in absences if each.since not in came], positions)
        self.is_listed = bool((is_absent & ~self.is_implied).any())
        self.disproves = is_absent & (is_change | self.is_implied)
        begun = _moved(np.array([each.since for each in absences]), positions, segments)
        ended = _moved(np.array([each.until for each in absences if each.until is not None]), positions, segments)
        self.opens = is_absent | begun
        self.crosses = bool((begun | ended).any())


def _moved(bounds: Places, positions: Places, segments: Segments) -> Flags:
    """Return which steps have passed more of the bounds than the one before them."""
    passed = np.searchsorted(bounds, positions, side="right")
    return np.append([False], passed[1:] != passed[:-1])[: len(passed)] & ~segments.begins
