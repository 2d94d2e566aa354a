"""Fields whose type was changed in the org: which values of which type, and where those go that do not convert.

A column has the field's type of today. Each change of type that loses something left a column beside it,
`<field>__before_<n>`, of the type before, with the values that did not convert. A value passes through the types one
after another and stays where it does not get on, so a table that is rewritten and one that is rebuilt from old events
hold the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sfcdc_assets.change_events.change_event import Cell, DecodedEvent
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.type_conversion import CellValue, convert


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
    return sorted((column for column in columns if column.kept_from == name), key=lambda column: column.kept_until)


def steps(column: Column, kept: Sequence[Column]) -> tuple[Step, ...]:
    """Return the way of a value of the type of `kept[0]` (the column's earlier values, oldest first) to the column's
    type."""
    way: list[Step] = []
    for each, following in zip(kept, (*kept[1:], column), strict=True):
        way.append(Step(each.kept_for or following.type, each.name))
        if way[-1].type is not following.type:
            way.append(Step(following.type, None))
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


class Retyping:
    """The columns as they were for an event at some position, and its cells as the columns are today."""

    def __init__(self, columns: Sequence[Column], position: int) -> None:
        """`columns` are those of today; `position` is the event's."""
        number = {column.name: index for index, column in enumerate(columns)}
        self._ways: dict[int, tuple[ColumnType, tuple[Step, ...]]] = {}
        self._number: Mapping[str, int] = number
        then = list(columns)
        for index, column in enumerate(columns):
            kept = [each for each in kept_columns(columns, column.name) if position < each.kept_until]
            if kept:
                then[index] = replace(column, type=kept[0].type, salesforce_type=kept[0].salesforce_type)
                self._ways[index] = (kept[0].type, steps(column, kept))
        self.columns = tuple(then)

    @property
    def is_needed(self) -> bool:
        """Whether any column was of another type then."""
        return bool(self._ways)

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
