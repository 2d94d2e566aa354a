"""Aggregates and groups: the columns of an inner SQL query, which has one for each field, and of the outer one, which
groups and aggregates them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.object_definition import FieldDefinition
from sfcdc_assets.emulator.soql.condition import is_filterable
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import Aggregate, AggregatedField, AliasedField, Name, Query

_NUMBERS = frozenset({"int", "double", "currency", "percent"})
_UNORDERED = frozenset({"boolean", "multipicklist", "time"})
_NOT_GROUPED = frozenset({"double", "currency", "percent", "datetime", "time", "multipicklist"})
Column = Callable[[Name], tuple[str, FieldDefinition]]
"""A field path to its SQL expression and definition; raises QueryError for unknown ones."""


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
        self._grouped: dict[str, tuple[str, FieldDefinition]] = {}
        for name in query.group_by:
            expression, field = column(name)
            if not is_filterable(field) or field.type in _NOT_GROUPED:
                raise self._refuse("INVALID_FIELD", name, f"field '{name.text}' can not be grouped in a query call")
            self._grouped[name.text.lower()] = (self._place(expression), field)
        self._aliases: dict[str, tuple[str, FieldDefinition]] = {}
        self._columns = self._selected()

    @property
    def inner(self) -> str:
        """The columns of the inner query."""
        return ", ".join(f"{expression} AS {name}" for expression, name in self._inner.items()) or "1"

    @property
    def grouping(self) -> str:
        """The outer query's GROUP BY, with a space before it."""
        return f" GROUP BY {', '.join(place for place, _ in self._grouped.values())}" if self._grouped else ""

    def columns(self) -> list[AggregateColumn]:
        """The columns of the outer query."""
        return self._columns

    def resolve(self, operand: Name | Aggregate) -> tuple[str, FieldDefinition]:
        """What HAVING and ORDER BY may name: grouped fields, aggregates and aliases."""
        if isinstance(operand, Aggregate):
            return self._aggregated(operand)
        found = self._grouped.get(operand.text.lower()) or self._aliases.get(operand.text.lower())
        if found is None:
            raise self._refuse("MALFORMED_QUERY", operand, f"Field must be grouped or aggregated: {operand.text}")
        return found

    def _selected(self) -> list[AggregateColumn]:
        columns: list[AggregateColumn] = []
        unnamed = 0
        for item in self._query.items:
            if isinstance(item, AggregatedField):
                expression, field = self._aggregated(item.aggregate)
                name = item.alias or f"expr{unnamed}"
                unnamed += item.alias is None
                shown = field if item.aggregate.function in {"MIN", "MAX"} else None
            elif isinstance(item, Name) or (isinstance(item, AliasedField) and not item.is_label):
                expression, field = self.resolve(item if isinstance(item, Name) else item.field)
                name, shown = field.name if isinstance(item, Name) else item.alias, field
            else:
                raise QueryError("MALFORMED_QUERY", "Field must be grouped or aggregated")
            self._aliases.setdefault(name.lower(), (expression, field))
            columns.append(AggregateColumn(name, expression, shown))
        return columns

    def _aggregated(self, aggregate: Aggregate) -> tuple[str, FieldDefinition]:
        expression, field = self._column(aggregate.field)
        function = aggregate.function
        fits = is_filterable(field)
        if function in {"SUM", "AVG"}:
            fits = field.type in _NUMBERS
        elif function in {"MIN", "MAX"}:
            fits = fits and field.type not in _UNORDERED
        if not fits:
            message = f"field {field.name} does not support aggregate operator {function}"
            raise self._refuse("INVALID_FIELD", aggregate.field, message)
        place = self._place(expression)
        if function in {"MIN", "MAX"}:
            return f"{function}({place})", field
        number = FieldDefinition(f"{function}({field.name})", field.label, "double", precision=18, scale=2)
        if function == "COUNT_DISTINCT":
            return f"COUNT(DISTINCT sf_fold({place}))", number
        return f"{function}({place})", number

    def _place(self, expression: str) -> str:
        """The name of the inner column with that expression."""
        return self._inner.setdefault(expression, f"c{len(self._inner)}")

    def _refuse(self, error_code: str, name: Name, reason: str) -> QueryError:
        return refusal(error_code, self._query.text, name.position, reason)
