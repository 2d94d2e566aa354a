"""The values that a key range's records have after each of their steps, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.timeline import absent_fields
from sfcdc_assets.timeline.follow_records import Flags, Places, Segments
from sfcdc_assets.timeline.steps import CHANGE, READ, READABLE, ROW, SETS_ALL
from sfcdc_assets.timeline.version_columns import STANDS_AT

_SHAPES = pl.DataFrame(  # without an array: to make an empty one imports pandas
    pa.Table.from_batches([], pa.schema([(column_type.name, forms.arrow) for column_type, forms in FORMS.items()]))
).schema
FROM_MEMBER: Mapping[ColumnType, tuple[str, pl.DataType]] = {
    column_type: (forms.member, _SHAPES[column_type.name]) for column_type, forms in FORMS.items()
}
"""Column type -> member of `changes.CELL`, polars type."""
_NOTHING = {column_type: pl.Series([None], dtype=dtype) for column_type, (_, dtype) in FROM_MEMBER.items()}


@dataclass(frozen=True)
class Filled:
    """`values`: the columns, one row a step; `differs`: whether any is another than after the step before; `named`: the
    names of the fields that the step says to have changed, or that a read shows to differ; `certain`: names of the
    columns whose values are certain, null where all are that had come by then."""

    values: pl.DataFrame
    differs: Flags
    named: pl.Series
    certain: pl.Series


_STANDS_AT = STANDS_AT.fill_null(0)


class Sources:
    """Where the values of steps come from: rows of the table, changes and reads, each by its place."""

    def __init__(self, steps: pl.DataFrame, rows: pl.DataFrame, changes: pl.DataFrame, reads: pl.DataFrame) -> None:
        self.steps, self.rows, self.reads = steps, rows, reads
        self.ids = steps["Id"]
        self.segments = Segments(self.ids)
        places, source = steps[["step", "at"]], steps["source"]
        self.of_rows, self.of_changes = places.filter(source == ROW), places.filter(source == CHANGE)
        of_reads = places.filter(source == READ)
        self.is_read = _marked(steps.height, of_reads["step"])
        shown = reads.with_row_index("at")[["at", "_unread"]].filter(reads["_system_modstamp"].is_not_null())
        self.shown = of_reads.join(shown, on="at", maintain_order="left")
        self.stands_at = steps.select(_STANDS_AT).to_series().to_numpy()
        """Up to where each step tells what there was."""
        self.unread = set() if self.shown.is_empty() else set(self.shown["_unread"].explode().drop_nulls().to_list())
        self.cells = self._cells(changes)
        self.unproven = self._unproven(changes)
        met = rows[["_certain_fields", "_change_type"]][self.of_rows["at"]]
        self.known_rows = self.of_rows.hstack(met).filter(met["_change_type"].is_not_null())
        """Rows of which more than the Id is known, each with its step and the columns that are certain."""
        self._row_places = np.full(steps.height, -1)
        self._row_places[self.of_rows["step"].to_numpy()] = self.of_rows["at"].to_numpy()

    @property
    def leaves_something_open(self) -> bool:
        """Whether any value may not be certain; that it is, is the rule."""
        steps, known = self.steps, self.known_rows
        is_whole = steps["_change_type"].is_in(SETS_ALL).fill_null(value=False).to_numpy()
        proves_all = is_whole | _marked(steps.height, self.shown["step"]) | _marked(steps.height, known["step"])
        at_first = self.segments.begins
        if len(known) < len(self.of_rows):
            unknown = _marked(steps.height, self.of_rows["step"]) & ~_marked(steps.height, known["step"])
            at_first = (at_first & ~unknown) | (np.append([False], unknown[:-1]) & ~self.segments.begins)
        return bool(
            steps["blocked"].any()
            or self.unproven
            or self.unread
            or known["_certain_fields"].is_not_null().any()
            or (at_first & ~proves_all).any()
        )

    def untouched(self, columns: Sequence[Column]) -> pl.DataFrame:
        """Return those that no change and no read says anything about, most of a sparse update's: at each step the
        record's row has their value, and all of them are taken from there at once."""
        names = [
            column.name
            for index, column in enumerate(columns)
            if column.name != "Id" and index not in self.cells and self.shown.is_empty()
        ]
        of_step = pl.Series("at", self._row_places[self.segments.last(np.zeros(self.steps.height, bool))])
        checkpoints = of_step.to_frame().select(pl.when(pl.col("at") >= 0).then(pl.col("at")))["at"]
        types = {column.name: FROM_MEMBER[column.type][1] for column in columns}
        found = self.rows.select(pl.col(names).gather(checkpoints))
        wanted = pl.Schema({name: types[name] for name in names})
        return found if found.schema == wanted else found.cast(wanted)

    def followed(self, index: int, column: Column) -> pl.Series:
        """Return a column that some step says something about, after each step: the last value that was said up to
        it."""
        member, dtype = FROM_MEMBER[column.type]
        places, values = self._row_places.copy(), [self.rows.get_column(column.name)]
        said: list[tuple[pl.Series, Places, pl.Series]] = []
        if not self.shown.is_empty():
            carried = self.carried(column.name)
            at = carried["at"].to_numpy().astype(np.int64)
            said.append((carried["step"], at, self.reads.get_column(column.name)))
        cells = self.cells.get(index)
        if cells is not None:
            certain = cells.filter(~cells["is_diff"]) if cells["is_diff"].any() else cells
            said.append((certain["step"], np.arange(certain.height), certain.get_column(member)))
        for steps, at, source in said:
            places[steps.to_numpy()] = sum(map(len, values)) + at
            values.append(source)
        values.append(_NOTHING[column.type])  # the place -1, of a step before which nothing was said
        whole = pl.concat([each if each.dtype == dtype else each.cast(dtype) for each in values], rechunk=False)
        taken = places[self.segments.last(places >= 0)]
        return whole[pl.Series(np.where(taken < 0, len(whole) - 1, taken))].alias(column.name)

    def carried(self, name: str) -> pl.DataFrame:
        """Return steps of reads that say something about a column."""
        if name not in self.unread:
            return self.shown
        return self.shown.filter(~pl.col("_unread").list.contains(name).fill_null(value=False))

    def _unproven(self, changes: pl.DataFrame) -> dict[int, Places]:
        """Column index -> steps of the changes after which its value is not known."""
        if changes["unproven"].null_count() == changes.height:
            return {}
        left = changes.with_row_index("at").select("at", "unproven").explode("unproven").drop_nulls()
        found = left.join(self.of_changes, on="at", how="inner").unique(["step", "unproven"])
        steps = found.partition_by("unproven", as_dict=True, include_key=False)
        return {int(key[0]): of["step"].to_numpy().astype(np.int64) for key, of in steps.items()}

    def _cells(self, changes: pl.DataFrame) -> dict[int, pl.DataFrame]:
        """Column index -> `step` and value of the changes' cells; `is_diff`: the value is a diff that waits."""
        if changes.is_empty():
            return {}
        cells = (
            changes.with_row_index("at")
            .select("at", "cells", "diff_columns", "blocked")
            .join(self.of_changes, on="at", how="inner")
            .filter(pl.col("cells").list.len() > 0)
            .explode("cells")
            .unnest("cells")
        )
        is_diff = pl.col("blocked") & pl.col("diff_columns").list.contains(pl.col("column")).fill_null(value=False)
        cells = cells.with_columns(is_diff.alias("is_diff")).drop("diff_columns", "blocked", "at")
        return {int(key[0]): of for key, of in cells.partition_by("column", as_dict=True, include_key=False).items()}


def fill(sources: Sources, columns: Sequence[Column]) -> Filled:
    """Return the values after each step: those before it but where it tells another.

    Each query of a data frame costs a tenth of a millisecond, however small it is, so all columns share few of them.
    """
    count = sources.steps.height
    untouched = sources.untouched(columns)
    still = {"Id", *untouched.columns}
    touched = [(index, column) for index, column in enumerate(columns) if column.name not in still]
    followed = pl.DataFrame([sources.followed(index, column) for index, column in touched])
    unequal: Flags = _unequal(followed) & ~sources.segments.begins[:, None]
    named: dict[str, Flags] = {}
    for (index, column), is_other in zip(touched, unequal.T, strict=True):
        cells = sources.cells.get(index)
        says = _marked(count, cells["step"]) if cells is not None else np.zeros(count, bool)
        # What became of a value that did not convert is the field's own change.
        field = column.kept_from or column.name
        named[field] = named.get(field, np.zeros(count, bool)) | says | (sources.is_read & is_other)
    whole = pl.DataFrame([sources.ids, *followed, *untouched])[[column.name for column in columns]]
    return Filled(whole, np.logical_or.reduce(unequal, axis=1), _lists(named, count), _certain(sources, columns))


def _unequal(values: pl.DataFrame) -> Flags:
    """Per row and column: whether the value is another than in the row before."""
    if not values.width:
        return np.zeros((1, 0), bool)
    return values.select(pl.all().ne_missing(pl.all().shift(1))).to_numpy()


def _certain(sources: Sources, columns: Sequence[Column]) -> pl.Series:
    """Per step the names of the columns whose values are certain, null where all are that had come by then.

    A value is certain where a step proves it: an event that sets its column, a create or undelete, a read that shows
    the record. It stays so until an event that changes it without saying to what, or one that cannot be read. Between
    an entry and the read that answers it only what events set is certain: the first one that was blocked leaves nothing
    of what was known before it. An event that does not name a formula leaves it open, as not all its changes raise one
    that does; so all are certain although formulas are not: they would be named in every version of an entity that has
    one. What stands for a position before a column came proves nothing of that, and while the
    object lacks a field nothing proves its value: the column is open until something does after that.
    """
    steps, count = sources.steps, sources.steps.height
    is_change = (steps["source"] == CHANGE).to_numpy()
    came_later = any((sources.stands_at < column.came_at).any() for column in columns if column.came_at)
    absent = {
        column.name: absent_fields.Steps(column, sources.stands_at, sources.segments, is_change)
        for column in columns
        if column.absences
    }
    by_absences = any(each.crosses or each.is_listed for each in absent.values())
    if not (came_later or by_absences or sources.leaves_something_open):
        return pl.Series("_certain_fields", [None], dtype=pl.List(pl.String)).new_from_index(0, count)
    blocked = steps["blocked"].to_numpy()
    kind = steps["_change_type"].fill_null("")
    before = np.roll(blocked, 1)
    before[0] = False
    resets = blocked & (~before | sources.segments.begins | ~kind.is_in(READABLE).to_numpy())
    proves_all = kind.is_in(SETS_ALL).to_numpy() & is_change
    is_shown = _marked(count, sources.shown["step"])
    known_rows = sources.known_rows
    leaves_formulas = _leaves_formulas_open(steps)
    of_column: dict[str, Flags] = {}
    whole = np.ones(count, bool)
    for index, column in enumerate(columns):
        if column.name == "Id" or column.kept_from is not None:
            continue
        marks = np.where(proves_all, _PROVEN, np.where(resets, _UNKNOWN, _SAYS_NOTHING)).astype(np.int8)
        absence = absent.get(column.name)
        opens = np.zeros(count, bool) if absence is None else absence.opens
        marks[opens] = _OPEN
        marks[known_rows["step"].to_numpy()] = np.where(_is_certain(known_rows, column.name), _PROVEN, _OPEN)
        if column.is_formula:
            marks[leaves_formulas] = _OPEN
        marks[is_shown] = _PROVEN
        cells = sources.cells.get(index)
        if cells is not None:
            marks[cells.filter("is_diff")["step"].to_numpy()] = _OPEN
            marks[cells.filter(~pl.col("is_diff"))["step"].to_numpy()] = _PROVEN
        if index in sources.unproven:
            marks[sources.unproven[index]] = _OPEN
        if column.name in sources.unread:
            # A field that the object did not have then, or that was hidden: the read proves nothing of it.
            is_silent = is_shown & ~_marked(count, sources.carried(column.name)["step"])
            marks[is_silent] = np.where(opens, _OPEN, _SAYS_NOTHING)[is_silent]
        is_missing = sources.stands_at < column.came_at
        marks[is_missing] = _SAYS_NOTHING
        if absence is not None:
            marks[absence.disproves] = _OPEN
            is_missing |= absence.is_implied
        of_column[column.name] = marks[sources.segments.last(marks != _SAYS_NOTHING)] == _PROVEN
        if not column.is_formula:
            whole &= of_column[column.name] | is_missing
    lists = _lists(of_column, count)
    return pl.DataFrame({"lists": lists, "whole": whole}).select(
        pl.when(~pl.col("whole")).then(pl.col("lists")).alias("_certain_fields")
    )["_certain_fields"]


def _leaves_formulas_open(steps: pl.DataFrame) -> Flags:
    """Return which steps are events that do not carry all that their record has."""
    carries_all = steps["_change_type"].is_in(SETS_ALL).fill_null(value=False)
    return ((steps["source"] == CHANGE) & ~carries_all).to_numpy()


_SAYS_NOTHING, _UNKNOWN, _PROVEN, _OPEN = -1, 0, 1, 2
"""What a step says of a column's value: nothing; that nothing is known of the record any more; what it is; that it
changed and not to what."""


def _is_certain(rows: pl.DataFrame, name: str) -> Flags:
    names = pl.col("_certain_fields")
    return rows.select((names.is_null() | names.list.contains(name)).fill_null(value=True)).to_series().to_numpy()


def _lists(flags: dict[str, Flags], count: int) -> pl.Series:
    """Per step the names whose flag is set."""
    names = list(flags)
    steps, at = np.nonzero(np.column_stack([np.zeros((count, 0), bool), *flags.values()]))
    ends = np.append(0, np.cumsum(np.bincount(steps, minlength=count)))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(names, pa.string()).take(pa.array(at)))
    return pl.Series("names", lists)


def _marked(count: int, steps: pl.Series) -> Flags:
    marks = np.zeros(count, bool)
    marks[steps.to_numpy()] = True
    return marks
