"""WHERE conditions as SQLite expressions with bound parameters.

Semantics (SOQL's, where they differ from SQL's): every comparison is true or false, never unknown, so `!= 'x'`, NOT
IN and NOT include nulls; an empty text literal is null; text compares without case; ids compare exactly, 15
characters as their 18.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.soql.literal_value import ID_TYPES, NOT_TEXT, LiteralValues, Parameter, like_pattern
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import (
    Chain,
    Comparison,
    Condition,
    DateFunction,
    Literal,
    LiteralKind,
    Membership,
    Negation,
    Operand,
)

Sql = tuple[str, tuple[Parameter, ...]]
"""An SQL expression and its bound parameters."""
Resolve = Callable[[Operand], tuple[str, FieldDefinition]]
"""A field, an aggregate or a date function to its SQL expression and definition; raises QueryError for what may not
stand there."""
Nested = Callable[[Membership], Sql]
"""The SQL query of a semi-join's inner query, which gives ids; raises QueryError."""


def is_filterable(field: FieldDefinition) -> bool:
    """Return whether WHERE may name the field: not long text, encrypted values, addresses or locations."""
    long_text = field.type == "textarea" and field.length > 255
    is_hidden = field.encrypted or field.type == "encryptedstring"
    return field.filterable and not long_text and not is_hidden and field.type not in {"address", "location"}


def is_sortable(field: FieldDefinition) -> bool:
    """Return whether ORDER BY may name the field."""
    return field.sortable and is_filterable(field) and field.type != "multipicklist"


def is_groupable(field: FieldDefinition) -> bool:
    """Return whether GROUP BY may name the field."""
    return is_sortable(field) and field.type not in {"double", "currency", "percent", "datetime", "time"}


@dataclass(frozen=True)
class ConditionCompiler:
    """Turns the conditions of one query into SQL. `now` (epoch ms) is what date literals are relative to."""

    text: str
    resolve: Resolve
    now: int
    nested: Nested

    @property
    def _literals(self) -> LiteralValues:
        return LiteralValues(self.text, self.now)

    def compile(self, condition: Condition) -> Sql:
        """Return the condition as an SQL expression; NULL counts as false, wherever it may stand. Raises QueryError.

        Comparisons are left bare so that SQLite can use its indexes; only what a NOT negates has to be made two-valued.
        """
        if isinstance(condition, Comparison):
            return self._comparison(condition)
        if isinstance(condition, Membership):
            return self._membership(condition)
        if isinstance(condition, Negation):
            sql, parameters = self.compile(condition.condition)
            return _negated(sql), parameters
        assert isinstance(condition, Chain)
        parts = [self.compile(part) for part in condition.conditions]
        joined = _balanced([sql for sql, _ in parts], condition.operator)
        return joined, tuple(parameter for _, parameters in parts for parameter in parameters)

    def _comparison(self, comparison: Comparison) -> Sql:
        column, field = self.resolve(comparison.field)
        if not is_filterable(field):
            raise self._refuse(comparison, "INVALID_FIELD", f"field '{field.name}' can not be filtered in a query call")
        operator, literals = comparison.operator, comparison.literals
        for literal in literals:
            self._literals.check(field, literal)
            if isinstance(comparison.field, DateFunction) and literal.kind is LiteralKind.DATE_LITERAL:
                raise self._refuse(comparison, "INVALID_FIELD", "date functions do not compare with date literals")
        if operator in {"INCLUDES", "EXCLUDES"}:
            if field.type != "multipicklist":
                raise self._bad_operator(comparison, field)
            return self._includes(column, operator, literals)
        if operator == "LIKE":
            return self._like(column, field, comparison)
        if operator in {"IN", "NOT IN"}:
            sql, parameters = self._is_in(column, field, literals)
            return (sql if operator == "IN" else _negated(sql)), parameters
        if operator == "=":
            return self._equals(column, field, literals[0])
        if operator == "!=":
            sql, parameters = self._equals(column, field, literals[0])
            return _negated(sql), parameters
        return self._inequality(column, field, comparison)

    def _membership(self, membership: Membership) -> Sql:
        column, field = self.resolve(membership.field)
        if field.type not in ID_TYPES:
            raise refusal(
                "INVALID_FIELD",
                self.text,
                membership.field.position,
                f"The left operand '{field.name}' of a semi join must be an ID or a reference",
            )
        inner, parameters = self.nested(membership)
        sql = f"{column} IN ({inner})"
        return (_negated(sql) if membership.negated else sql), parameters

    def _is_in(self, column: str, field: FieldDefinition, literals: Sequence[Literal]) -> Sql:
        spans = [literal for literal in literals if literal.kind is LiteralKind.DATE_LITERAL]
        values = [self._literals.value(field, each) for each in literals if each.kind is not LiteralKind.DATE_LITERAL]
        known = tuple(value for value in values if value is not None)
        parts = [self._equals(column, field, literal) for literal in spans]
        if len(known) < len(values):
            parts.append((f"{column} IS NULL", ()))
        if known:
            # One parameter however many literals there are, since SQLite counts parameters.
            sql = f"{_comparable(column, field)} IN (SELECT value FROM json_each(?))"
            parts.append((sql, (json.dumps(known, ensure_ascii=False),)))
        joined = " OR ".join(sql for sql, _ in parts)
        return f"({joined})", tuple(parameter for _, parameters in parts for parameter in parameters)

    def _equals(self, column: str, field: FieldDefinition, literal: Literal) -> Sql:
        if literal.kind is LiteralKind.DATE_LITERAL:
            start, end = self._literals.span(field, literal)
            return f"({column} >= ? AND {column} < ?)", (start, end)
        value = self._literals.value(field, literal)
        if value is None:
            return f"({column} IS NULL)", ()
        return f"{_comparable(column, field)} = ?", (value,)

    def _inequality(self, column: str, field: FieldDefinition, comparison: Comparison) -> Sql:
        operator, literal = comparison.operator, comparison.literals[0]
        if field.type in {"boolean", "multipicklist"} or literal.kind is LiteralKind.NULL:
            raise self._bad_operator(comparison, field)
        if literal.kind is LiteralKind.DATE_LITERAL:
            start, end = self._literals.span(field, literal)
            sql_operator = "<" if operator in {"<", "<="} else ">="
            return f"{column} {sql_operator} ?", (start if operator in {"<", ">="} else end,)
        value = self._literals.value(field, literal)
        if value is None:
            raise self._bad_operator(comparison, field)
        if field.type in NOT_TEXT | ID_TYPES:
            return f"{column} {operator} ?", (value,)
        return f"sf_sort({column}) {operator} sf_sort(?)", (value,)

    def _like(self, column: str, field: FieldDefinition, comparison: Comparison) -> Sql:
        literal = comparison.literals[0]
        if field.type in NOT_TEXT | ID_TYPES | {"multipicklist"} or literal.kind is LiteralKind.NULL:
            raise self._bad_operator(comparison, field)
        self._literals.string(literal)
        return f"sf_fold({column}) LIKE ? ESCAPE '\\'", (like_pattern(literal.text).lower(),)

    def _includes(self, column: str, operator: str, literals: Sequence[Literal]) -> Sql:
        alternatives: list[str] = []
        parameters: list[Parameter] = []
        for literal in literals:
            wanted = [part.strip() for part in self._literals.string(literal).split(";") if part.strip()]
            if not wanted:
                alternatives.append(f"{column} IS NULL")
                continue
            alternatives.append(" AND ".join([f"INSTR(';' || sf_fold({column}) || ';', ?) > 0"] * len(wanted)))
            parameters.extend(f";{part.lower()};" for part in wanted)
        sql = " OR ".join(f"({alternative})" for alternative in alternatives)
        return (f"({sql})" if operator == "INCLUDES" else _negated(sql)), tuple(parameters)

    def _bad_operator(self, comparison: Comparison, field: FieldDefinition) -> QueryError:
        return self._refuse(comparison, "INVALID_QUERY_FILTER_OPERATOR", f"invalid operator on {field.type} field")

    def _refuse(self, comparison: Comparison, error_code: str, reason: str) -> QueryError:
        return refusal(error_code, self.text, comparison.position, reason)


def _comparable(column: str, field: FieldDefinition) -> str:
    """Text is folded; ids, numbers, days and moments compare as they are stored."""
    return column if field.type in NOT_TEXT | ID_TYPES else f"sf_fold({column})"


def _negated(sql: str) -> str:
    return f"NOT COALESCE({sql}, 0)"


def _balanced(parts: Sequence[str], operator: str) -> str:
    """Return the parts joined as a tree of little depth: SQLite allows expressions 1,000 levels deep, a flat chain is
    one a part."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({_balanced(parts[:half], operator)} {operator} {_balanced(parts[half:], operator)})"
