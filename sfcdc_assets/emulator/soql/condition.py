"""WHERE conditions as SQLite expressions with bound parameters.

Semantics (SOQL's, where they differ from SQL's): every comparison is true or false, never unknown, so `!= 'x'`, NOT
IN and NOT include nulls; an empty text literal is null; text compares without case; ids compare exactly, 15
characters as their 18.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.field_value import parse_datetime
from sfcdc_assets.emulator.ids import to_18
from sfcdc_assets.emulator.object_definition import FieldDefinition
from sfcdc_assets.emulator.soql.date_literal import date_span, midnight
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.string_literal import like_pattern, string_value
from sfcdc_assets.emulator.soql.syntax import (
    Aggregate,
    Chain,
    Comparison,
    Condition,
    Literal,
    LiteralKind,
    Membership,
    Name,
    Negation,
)

Parameter = str | int | float | None
Sql = tuple[str, tuple[Parameter, ...]]
"""An SQL expression and its bound parameters."""
Resolve = Callable[[Name | Aggregate], tuple[str, FieldDefinition]]
"""A field path or an aggregate to its SQL expression and definition; raises QueryError for what may not stand there."""
Nested = Callable[[Membership], Sql]
"""The SQL query of a semi-join's inner query, which gives ids; raises QueryError."""

_ID_TYPES = {"id", "reference"}
_KINDS = {
    "boolean": {LiteralKind.BOOLEAN},
    "int": {LiteralKind.NUMBER},
    "double": {LiteralKind.NUMBER},
    "currency": {LiteralKind.NUMBER},
    "percent": {LiteralKind.NUMBER},
    "date": {LiteralKind.DATE, LiteralKind.DATE_LITERAL},
    "datetime": {LiteralKind.DATETIME, LiteralKind.DATE_LITERAL},
    "time": {LiteralKind.TIME},
}
_NOT_TEXT = frozenset(_KINDS)
_SOAP_NAMES = {"datetime": "dateTime", "currency": "double", "percent": "double"}


def is_filterable(field: FieldDefinition) -> bool:
    """Whether WHERE may name the field: not long text, encrypted values, addresses or locations."""
    long_text = field.type == "textarea" and field.length > 255
    is_hidden = field.encrypted or field.type == "encryptedstring"
    return not long_text and not is_hidden and field.type not in {"address", "location"}


def is_sortable(field: FieldDefinition) -> bool:
    """Whether ORDER BY may name the field."""
    return is_filterable(field) and field.type != "multipicklist"


@dataclass(frozen=True)
class ConditionCompiler:
    """Turns the conditions of one query into SQL. `now` (epoch ms) is what date literals are relative to."""

    text: str
    resolve: Resolve
    now: int
    nested: Nested

    def compile(self, condition: Condition) -> Sql:
        """The condition as an SQL expression; NULL counts as false, wherever it may stand. Raises QueryError.

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
            self._check_kind(field, literal)
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
        if field.type not in _ID_TYPES:
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
        plain = [literal for literal in literals if literal.kind is not LiteralKind.DATE_LITERAL]
        values = [self._value(field, literal) for literal in plain]
        known = tuple(value for value in values if value is not None)
        parts = [self._equals(column, field, literal) for literal in literals if literal not in plain]
        if len(known) < len(values):
            parts.append((f"{column} IS NULL", ()))
        if known:
            parts.append((f"{_comparable(column, field)} IN ({', '.join('?' * len(known))})", known))
        joined = " OR ".join(sql for sql, _ in parts)
        return f"({joined})", tuple(parameter for _, parameters in parts for parameter in parameters)

    def _equals(self, column: str, field: FieldDefinition, literal: Literal) -> Sql:
        if literal.kind is LiteralKind.DATE_LITERAL:
            start, end = self._span(field, literal)
            return f"({column} >= ? AND {column} < ?)", (start, end)
        value = self._value(field, literal)
        if value is None:
            return f"({column} IS NULL)", ()
        return f"{_comparable(column, field)} = ?", (value,)

    def _inequality(self, column: str, field: FieldDefinition, comparison: Comparison) -> Sql:
        operator, literal = comparison.operator, comparison.literals[0]
        if field.type in {"boolean", "multipicklist"} or literal.kind is LiteralKind.NULL:
            raise self._bad_operator(comparison, field)
        if literal.kind is LiteralKind.DATE_LITERAL:
            start, end = self._span(field, literal)
            sql_operator = "<" if operator in {"<", "<="} else ">="
            return f"{column} {sql_operator} ?", (start if operator in {"<", ">="} else end,)
        value = self._value(field, literal)
        if value is None:
            raise self._bad_operator(comparison, field)
        return f"{_comparable(column, field)} {operator} ?", (value,)

    def _like(self, column: str, field: FieldDefinition, comparison: Comparison) -> Sql:
        literal = comparison.literals[0]
        if field.type in _NOT_TEXT | _ID_TYPES | {"multipicklist"} or literal.kind is LiteralKind.NULL:
            raise self._bad_operator(comparison, field)
        self._string(literal)
        return f"sf_fold({column}) LIKE ? ESCAPE '\\'", (like_pattern(literal.text).lower(),)

    def _includes(self, column: str, operator: str, literals: Sequence[Literal]) -> Sql:
        alternatives: list[str] = []
        parameters: list[Parameter] = []
        for literal in literals:
            wanted = [part.strip() for part in self._string(literal).split(";") if part.strip()]
            if not wanted:
                alternatives.append(f"{column} IS NULL")
                continue
            alternatives.append(" AND ".join([f"INSTR(';' || sf_fold({column}) || ';', ?) > 0"] * len(wanted)))
            parameters.extend(f";{part.lower()};" for part in wanted)
        sql = " OR ".join(f"({alternative})" for alternative in alternatives)
        return (f"({sql})" if operator == "INCLUDES" else _negated(sql)), tuple(parameters)

    def _check_kind(self, field: FieldDefinition, literal: Literal) -> None:
        if literal.kind is LiteralKind.NULL and field.type != "boolean":
            return
        if literal.kind in _KINDS.get(field.type, {LiteralKind.STRING}):
            return
        kind = _SOAP_NAMES.get(field.type, field.type if field.type in _NOT_TEXT else "string")
        quotes = "should not" if field.type in _NOT_TEXT else "should"
        raise refusal(
            "INVALID_FIELD",
            self.text,
            literal.position,
            f"value of filter criterion for field '{field.name}' must be of type {kind} and {quotes} be enclosed "
            f"in quotes",
        )

    def _value(self, field: FieldDefinition, literal: Literal) -> Parameter:
        """The parameter an equal stored value compares with; None for null and the empty text."""
        try:
            match literal.kind:
                case LiteralKind.NULL:
                    return None
                case LiteralKind.BOOLEAN:
                    return int(literal.text.upper() == "TRUE")
                case LiteralKind.NUMBER:
                    return int(literal.text) if re.fullmatch(r"[+-]?\d{1,18}", literal.text) else float(literal.text)
                case LiteralKind.DATETIME:
                    return parse_datetime(literal.text.upper())
                case LiteralKind.DATE:
                    parse_datetime(literal.text)
                    return literal.text
                case LiteralKind.TIME:
                    whole, _, fraction = literal.text.upper().removesuffix("Z").partition(".")
                    return f"{whole}.{fraction[:3]:0<3}"
                case _:
                    text = self._string(literal)
        except (ValueError, OverflowError):
            raise refusal(
                "INVALID_FIELD", self.text, literal.position, f"Invalid value {literal.text} for field '{field.name}'"
            ) from None
        if not text:
            return None
        if field.type in _ID_TYPES:
            try:
                return to_18(text)
            except ValueError:
                raise refusal(
                    "INVALID_QUERY_FILTER_OPERATOR", self.text, literal.position, f"invalid ID field: {text}"
                ) from None
        return text.lower()

    def _span(self, field: FieldDefinition, literal: Literal) -> tuple[Parameter, Parameter]:
        try:
            start, end = date_span(literal.text, self.now)
        except ValueError:
            raise refusal(
                "MALFORMED_QUERY", self.text, literal.position, f"Invalid date literal {literal.text}"
            ) from None
        if field.type == "date":
            return start.isoformat(), end.isoformat()
        return midnight(start), midnight(end)

    def _string(self, literal: Literal) -> str:
        if literal.kind is LiteralKind.NULL:
            return ""
        try:
            return string_value(literal.text)
        except ValueError as error:
            raise refusal("MALFORMED_QUERY", self.text, literal.position, str(error)) from None

    def _bad_operator(self, comparison: Comparison, field: FieldDefinition) -> QueryError:
        return self._refuse(comparison, "INVALID_QUERY_FILTER_OPERATOR", f"invalid operator on {field.type} field")

    def _refuse(self, comparison: Comparison, error_code: str, reason: str) -> QueryError:
        return refusal(error_code, self.text, comparison.position, reason)


def _comparable(column: str, field: FieldDefinition) -> str:
    """Text is folded; ids, numbers, days and moments compare as they are stored."""
    return column if field.type in _NOT_TEXT | _ID_TYPES else f"sf_fold({column})"


def _negated(sql: str) -> str:
    return f"NOT COALESCE({sql}, 0)"


def _balanced(parts: Sequence[str], operator: str) -> str:
    """The parts joined as a tree of little depth: SQLite allows expressions 1,000 levels deep, a flat chain is one
    a part."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({_balanced(parts[:half], operator)} {operator} {_balanced(parts[half:], operator)})"
