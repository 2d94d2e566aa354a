"""Fields that came, or whose type was changed in the org: which values of which type, and where those go that do not
convert.

A column has the field's type of today. Each change of type that loses something left a column beside it,
`<field>__before_<n>`, of the type before, with the values that did not convert. A value passes through the types one
after another and stays where it does not get on, so a table that is rewritten and one that is rebuilt from old events
hold the same.

The first type of an event's value is what the event's own schema says: events of an older schema may come after the
position from which on the field has another type. Only types up to that position are asked, which are the same whenever
the event is read. Kinds of time have one schema; what is not certain for that is left open (`kinds_of_time`).

An event from before a column came, whose field was hidden then, has null for it, which is not its value; nobody applied
it to such a column then. So it says nothing of the column when it is read again, by a rebuild.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sfcdc_assets.change_events.cell_value import TIMES, is_of_type
from sfcdc_assets.change_events.change_event import Cell, DecodedEvent
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.event_schema import SchemaField
from sfcdc_assets.change_events.kinds_of_time import is_changeable, is_of_another_kind_too
from sfcdc_assets.change_events.type_conversion import CellValue, convert, widens


@dataclass(frozen=True)
class Step:
    """One change of type: a value that does not convert to `type` stays in the column `kept`; None: all convert."""

    type: ColumnType
    kept: str | None


def kept_name(name: str, number: int) -> str:
    """`<field>__before_<n>`: the column of the values before the field's n-th change of type that lost something."""
    return f"{name}__before_{number}"


def kept_columns(columns: Sequence[Column], name: str) -> list[Column]:
    """Return the columns with a column's earlier values, oldest first."""
    kept = (column for column in columns if column.kept_from == name)
    return sorted(kept, key=lambda column: int(column.name.rpartition("_")[2]))


def are_read_alike(old: Column, new: Column) -> bool:
    """Return whether an event's value becomes the same cell in either column. A time of day is a text in the tables and
    a long in events; and of two columns of hashes those of other types are not alike."""
    return old.plain_type is new.plain_type and (old.salesforce_type in TIMES) is (new.salesforce_type in TIMES)


def positions_of_changes(columns: Sequence[Column]) -> set[int]:
    """Return the positions from which on events are read with one more of the columns, or another type of one."""
    retyped = {each.until for column in columns for each in column.types_before}
    return retyped | {column.came_at for column in columns if column.came_at}


def steps(column: Column, kept: Sequence[Column]) -> tuple[Step, ...]:
    """Return the way of a value of the first type that the column had to its type of today: a step for each of
    `types_before`. `kept` has the column's earlier values, oldest first."""
    names = iter(kept)
    way: list[Step] = []
    for old, new in pairwise([*(each.type for each in column.types_before), column.type]):
        beside = None if widens(old, new) else next(names, None)
        way.append(Step(new, beside.name if beside else None))
    return tuple(way)


def follow(value: CellValue, type_: ColumnType, way: Sequence[Step]) -> tuple[CellValue, dict[str, CellValue]]:
    """Return the value at the end of its way, and what each column passed by keeps of it (null where it got on)."""
    kept: dict[str, CellValue] = {}
    for step in way:
        try:
            converted = convert(value, type_, step.type)
        except ValueError:
            if step.kept is None:
                raise
            kept[step.kept], value = value, None
        else:
            if step.kept is not None:
                kept[step.kept] = None
            value = converted
        type_ = step.type
    return value, kept


_OF_WHICH_KIND = "it may have been written when the field was another kind of time"
_NOT_THERE = Column("_", ColumnType.STRING)
"""In the place of a column that came later: no field has this name."""


class Retyping:
    """The columns as they were for events of some schema at some position, and their cells as the columns are today."""

    def __init__(self, columns: Sequence[Column], position: int, leaves: Mapping[int, SchemaField]) -> None:
        """`columns` are those of today; `position` is the event's; `leaves` the fields of its schema by the number of
        their column."""
        number = {column.name: index for index, column in enumerate(columns)}
        self._ways: dict[int, tuple[ColumnType, tuple[Step, ...]]] = {}
        self._number: Mapping[str, int] = number
        self._of_several_kinds: set[int] = set()
        """Columns that were more than one kind of time by then."""
        then = list(columns)
        for index, column in enumerate(columns):
            if column.came_at > position:
                then[index] = _NOT_THERE
                continue
            kinds = {of_field for _, of_field in _types(column)[: _at(column, position) + 1]} & TIMES
            if len(kinds) > 1:
                self._of_several_kinds.add(index)
            first = _first_type(column, position, leaves.get(index))
            if first < len(column.types_before):
                before = column.types_before[first]
                then[index] = replace(column, type=before.type, salesforce_type=before.salesforce_type)
                self._ways[index] = (before.type, steps(column, kept_columns(columns, column.name))[first:])
        self.columns = tuple(then)
        self.has_times = any(map(is_changeable, then))
        """Whether any was a time then whose kind can be changed."""

    @property
    def is_needed(self) -> bool:
        """Whether any column was of another type then."""
        return bool(self._ways)

    def left_open(self, decoded: DecodedEvent, *, waits: bool) -> DecodedEvent:
        """Return an unsettled event, decoded with `columns`, whose values that may be of another kind of time prove
        nothing. One that `waits` for a read may be of any kind; of another one they are of those that the field had,
        and are missing, so that the record is read."""
        found = {index for index, value in decoded.cells if is_of_another_kind_too(self.columns[index], value)}
        found &= found if waits else self._of_several_kinds
        if not found:
            return decoded
        missing = [decoded.missing] if decoded.missing else []
        if not waits:
            missing += [f"{self.columns[index].name}: {_OF_WHICH_KIND}" for index in sorted(found)]
        return replace(decoded, missing="; ".join(missing) or None, unproven=decoded.unproven | found)

    def today(self, decoded: DecodedEvent) -> DecodedEvent:
        """Return an event decoded with `columns` as cells of the columns of today. A diff is no value yet: it belongs
        to the text it is a diff to, which did not convert."""
        if not self._ways:
            return decoded
        cells: list[Cell] = []
        diffs = set(decoded.diff_columns)
        for index, value in decoded.cells:
            type_, way = self._ways.get(index, (None, ()))
            if type_ is None:
                cells.append((index, value))
                continue
            if index in diffs and way[0].kept is not None:
                diffs = diffs - {index} | {self._number[way[0].kept]}
                converted, kept = None, {way[0].kept: value}
            else:
                converted, kept = follow(value, type_, way)
            cells.append((index, converted))
            cells.extend((self._number[name], of_before) for name, of_before in kept.items())
        enriched = [claim for claim in decoded.enriched if claim[0] not in self._ways]
        return replace(decoded, cells=cells, diff_columns=frozenset(diffs), enriched=enriched)


def _first_type(column: Column, position: int, leaf: SchemaField | None) -> int:
    """Return which of the column's types, the last of which is today's, an event's value has: that of its position, or
    the newest one before it that its schema can be of."""
    types, of_position = _types(column), _at(column, position)
    fitting = (at for at in range(of_position, -1, -1) if leaf is not None and is_of_type(leaf, *types[at]))
    return next(fitting, of_position)


def _types(column: Column) -> list[tuple[ColumnType, str]]:
    """Return the types that the column had and has, oldest first, each with the field's."""
    return [*((each.type, each.salesforce_type) for each in column.types_before), (column.type, column.salesforce_type)]


def _at(column: Column, position: int) -> int:
    """Return which of the column's types it had at a position."""
    return sum(each.until <= position for each in column.types_before)
