"""Aggregates and groups: the columns of an inner SQL query, which has one for each field, and of the outer one, which
groups and aggregates them.

Which types may be grouped and aggregated: https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/
sforce_api_calls_soql_select_agg_functions_field_types.htm
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.soql.condition import is_filterable, is_groupable
from sfcdc_assets.emulator.soql.literal_value import ID_TYPES, NOT_TEXT
from sfcdc_assets.emulator.soql.ordering import extreme
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.selection import formatted
from sfcdc_assets.emulator.soql.syntax import (
    Aggregate,
    AliasedField,
    ComputedField,
    DateFunction,
    FormattedField,
    Name,
    Operand,
    Query,
    SelectItem,
    named_field,
)

_NUMBERS = frozenset({"int", "double", "currency", "percent"})
_NOT_AGGREGATED = frozenset({"boolean", "multipicklist", "time"})
Column = Callable[[Operand], tuple[str, FieldDefinition]]
"""A field or a date function of one to its SQL expression and definition; raises QueryError."""


@dataclass(frozen=True)
class AggregateColumn:
    """A column of the result; `field` says in which form its values are, None for plain numbers."""

    name: str
    expression: str
    field: FieldDefinition | None


class Aggregation:
    """The aggregates of one query. Raises QueryError for fields that are neither grouped nor aggregated."""

    def __init__(self, query: Query, column: Column) -> None:
        self._query = query
        self._column = column
        self._inner: dict[str, str] = {}
        # By SQL expression: a name may be written with the object's alias here and without it there.
        self._grouped: dict[str, tuple[str, FieldDefinition]] = {}
        for operand in query.group_by:
            expression, field = column(operand)
            if not is_groupable(field):
                name = named_field(operand)
                raise self._refuse("INVALID_FIELD", name, f"field '{name.text}' can not be grouped in a query call")
            self._grouped[expression] = (self._place(expression), field)
        self._aliases: dict[str, tuple[str, FieldDefinition]] = {}
        self.columns = self._selected()
        """The columns of the outer query."""

    @property
    def inner(self) -> str:
        """The columns of the inner query: those of all that was resolved so far."""
        return ", ".join(f"{expression} AS {name}" for expression, name in self._inner.items()) or "1"

    @property
    def width(self) -> int:
        """How many columns the inner query has."""
        return len(self._inner)

    @property
    def grouping(self) -> str:
        """The outer query's GROUP BY, with a space before it. Texts that differ in case only are one group."""
        keys = [
            place if field.type in NOT_TEXT | ID_TYPES else f"sf_fold({place})"
            for place, field in self._grouped.values()
        ]
        return f" GROUP BY {', '.join(keys)}" if keys else ""

    def resolve(self, operand: Operand) -> tuple[str, FieldDefinition]:
        """Return what HAVING and ORDER BY may name: grouped fields, aggregates and aliases."""
        if isinstance(operand, Aggregate):
            return self._aggregated(operand)
        if isinstance(operand, Name) and operand.text.lower() in self._aliases:
            return self._aliases[operand.text.lower()]
        expression, field = self._column(operand)
        if expression in self._grouped:
            return self._grouped[expression]
        if isinstance(operand, DateFunction):
            day, of = self._column(operand.field)
            if day in self._grouped and of.type == "date":  # the same for all records of the group
                return f"MIN({self._place(expression)})", field
        name = named_field(operand)
        raise self._refuse("MALFORMED_QUERY", name, f"Field must be grouped or aggregated: {name.text}")

    def _selected(self) -> list[AggregateColumn]:
        columns: list[AggregateColumn] = []
        taken: set[str] = set()
        unnamed = 0
        for item in self._query.items:
            alias, operand = _parts(item)
            expression, field = self.resolve(operand)
            shown: FieldDefinition | None = field
            if isinstance(item, FormattedField):
                expression, field = formatted(expression, field)
                shown = field
            elif isinstance(operand, Aggregate) and operand.function not in {"MIN", "MAX"}:
                shown = None
            if alias is None and isinstance(operand, Name):
                name = field.name
            else:
                name = alias or f"expr{unnamed}"
                unnamed += alias is None
            if name.lower() in taken:
                raise self._refuse("MALFORMED_QUERY", named_field(operand), f"duplicate alias: {name}")
            if alias is not None:
                self._aliases[name.lower()] = (expression, field)
            taken.add(name.lower())
            columns.append(AggregateColumn(name, expression, shown))
        return columns

    def _aggregated(self, aggregate: Aggregate) -> tuple[str, FieldDefinition]:
        expression, field = self._column(aggregate.field)
        function = aggregate.function
        fits = is_filterable(field) and field.type not in _NOT_AGGREGATED
        if function in {"SUM", "AVG"}:
            fits = field.type in _NUMBERS
        if not fits:
            message = f"field {field.name} does not support aggregate operator {function}"
            raise self._refuse("INVALID_FIELD", aggregate.field, message)
        place = self._place(expression)
        if function in {"MIN", "MAX"}:
            return extreme(function, place, field), field
        kind = field.type if function in {"SUM", "AVG"} else "int"
        number = FieldDefinition(f"{function}({field.name})", field.label, kind, precision=18, scale=field.scale)
        if function == "COUNT_DISTINCT":
            return f"COUNT(DISTINCT sf_fold({place}))", number
        return f"{function}({place})", number

    def _place(self, expression: str) -> str:
        """Return the name of the inner column with that expression."""
        return self._inner.setdefault(expression, f"c{len(self._inner)}")

    def _refuse(self, error_code: str, name: Name, reason: str) -> QueryError:
        return refusal(error_code, self._query.text, name.position, reason)


def _parts(item: SelectItem) -> tuple[str | None, Operand]:
    """Return the alias and the operand of what is selected."""
    if isinstance(item, Name):
        return None, item
    if isinstance(item, AliasedField) and not item.is_label:
        return item.alias, item.field
    if isinstance(item, ComputedField | FormattedField):
        return item.alias, item.operand
    raise QueryError("MALFORMED_QUERY", "Field must be grouped or aggregated")
