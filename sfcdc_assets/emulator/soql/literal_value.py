"""What a literal of a query is compared as: the stored form of the field it stands beside."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.records.field_value import parse_datetime
from sfcdc_assets.emulator.soql.date_literal import date_span, midnight
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import Literal, LiteralKind

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "_": "_", "%": "%"}
Parameter = str | int | float | None
"""A bound parameter of SQLite."""
_MAX_TEXT = 4_000
"""https://developer.salesforce.com/docs/atlas.en-us.salesforce_app_limits_cheatsheet.meta/
salesforce_app_limits_cheatsheet/salesforce_app_limits_platform_soslsoql.htm"""
ID_TYPES = {"id", "reference"}
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
NOT_TEXT = frozenset(_KINDS)
_SOAP_NAMES = {"datetime": "dateTime", "currency": "double", "percent": "double"}


@dataclass(frozen=True)
class LiteralValues:
    """The literals of one query. `now` (epoch ms) is what date literals are relative to."""

    text: str
    now: int

    def check(self, field: FieldDefinition, literal: Literal) -> None:
        """Raise QueryError INVALID_FIELD for a literal that does not fit the field's type."""
        if literal.kind is LiteralKind.NULL or literal.kind in _KINDS.get(field.type, {LiteralKind.STRING}):
            return
        kind = _SOAP_NAMES.get(field.type, field.type if field.type in NOT_TEXT else "string")
        quotes = "should not" if field.type in NOT_TEXT else "should"
        raise refusal(
            "INVALID_FIELD",
            self.text,
            literal.position,
            f"value of filter criterion for field '{field.name}' must be of type {kind} and {quotes} be enclosed "
            f"in quotes",
        )

    def value(self, field: FieldDefinition, literal: Literal) -> Parameter:
        """Return the parameter an equal stored value compares with; None for null and the empty text. A checkbox is
        never null: null stands for false (https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/
        sforce_api_calls_soql_null.htm)."""
        try:
            match literal.kind:
                case LiteralKind.NULL:
                    return 0 if field.type == "boolean" else None
                case LiteralKind.BOOLEAN:
                    return int(literal.text.upper() == "TRUE")
                case LiteralKind.NUMBER:
                    return _number(literal.text)
                case LiteralKind.DATETIME:
                    return parse_datetime(literal.text.upper())
                case LiteralKind.DATE:
                    parse_datetime(literal.text)
                    return literal.text
                case LiteralKind.TIME:
                    whole, _, fraction = literal.text.upper().removesuffix("Z").partition(".")
                    return f"{whole}.{fraction[:3]:0<3}"
                case _:
                    text = self.string(literal)
        except (ValueError, OverflowError):
            raise refusal(
                "INVALID_FIELD", self.text, literal.position, f"Invalid value {literal.text} for field '{field.name}'"
            ) from None
        if not text:
            return None
        if field.type in ID_TYPES:
            try:
                return to_18(text)
            except ValueError:
                raise refusal(
                    "INVALID_QUERY_FILTER_OPERATOR", self.text, literal.position, f"invalid ID field: {text}"
                ) from None
        return text.lower()

    def span(self, field: FieldDefinition, literal: Literal) -> tuple[Parameter, Parameter]:
        """Return what a date literal spans: its start, and where the next span would start."""
        try:
            start, end = date_span(literal.text, self.now)
        except ValueError:
            raise refusal(
                "MALFORMED_QUERY", self.text, literal.position, f"Invalid date literal {literal.text}"
            ) from None
        if field.type == "date":
            return start.isoformat(), end.isoformat()
        return midnight(start), midnight(end)

    def string(self, literal: Literal) -> str:
        """Return the text of a literal; null is the empty one."""
        if literal.kind is LiteralKind.NULL:
            return ""
        if len(literal.text) - 2 > _MAX_TEXT:
            reason = f"a text in a condition has at most {_MAX_TEXT:,} characters"
            raise refusal("MALFORMED_QUERY", self.text, literal.position, reason)
        try:
            return string_value(literal.text)
        except ValueError as error:
            raise refusal("MALFORMED_QUERY", self.text, literal.position, str(error)) from None


def _number(text: str) -> int | float:
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def string_value(literal: str) -> str:
    """Return the text between the quotes with its escapes resolved. Raises ValueError for an escape SOQL has not."""
    return "".join(char for char, _ in _characters(literal))


def like_pattern(literal: str) -> str:
    r"""Return the pattern for SQL `LIKE ... ESCAPE '\'`: bare % and _ are wildcards, escaped ones are themselves."""
    return "".join(
        "\\" + char if char == "\\" or (escaped and char in "%_") else char for char, escaped in _characters(literal)
    )


def _characters(literal: str) -> Iterator[tuple[str, bool]]:
    inner = literal[1:-1]
    position = 0
    while position < len(inner):
        if inner[position] != "\\":
            yield inner[position], False
            position += 1
        elif (code := inner[position + 1]).lower() == "u" and position + 6 <= len(inner):
            char = chr(int(inner[position + 2 : position + 6], 16))
            if "\ud800" <= char <= "\udfff":
                raise ValueError("Illegal escape: half of a surrogate pair")
            yield char, True
            position += 6
        elif code in _ESCAPES or code.lower() in _ESCAPES:
            yield _ESCAPES.get(code) or _ESCAPES[code.lower()], True
            position += 2
        else:
            raise ValueError(f"Illegal escape: \\{code}")
