"""The values that formulas compute with, and what they are in the store.

A blank text is the empty one, as in the formula language; any other blank is None. A percent field of 12.5 is 0.125,
and an id has its 15 characters (https://help.salesforce.com/s/articleView?id=sf.tips_on_building_formulas.htm).
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import TypeVar

from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.runtime.times import epoch_ms, utc

Value = Decimal | str | bool | date | datetime | time | None
_T = TypeVar("_T", Decimal, str, bool, date, datetime, time)

NUMBERS = frozenset({"int", "double", "currency", "percent"})
ARITHMETIC = Context(
    prec=39, rounding=ROUND_HALF_UP, Emin=-130, Emax=130, traps=[InvalidOperation, DivisionByZero, Overflow]
)
"""39 digits, as the vendor's engine has (https://github.com/salesforce/formula-engine, BigDecimalHelper)."""
RESULT_TYPES = frozenset({"boolean", "string", "date", "datetime", "time"}) | NUMBERS
"""Types of fields that may be formulas."""
_LONGEST_TEXT = 1_300
_MOST_DIGITS = 100
"""More than a number can have before its point and its digits behind it."""
_ID_TYPES = frozenset({"id", "reference"})


class FormulaError(Exception):
    """The formula has no value: `#Error!` on a page of the org, null in the API."""


def from_stored(kind: str, value: StoredValue, *, blank_is_zero: bool) -> Value:
    """Return a field's stored value as a formula sees it."""
    if kind == "boolean":
        return bool(value)
    if kind in NUMBERS:
        if value is None:
            return Decimal(0) if blank_is_zero else None
        number = Decimal(str(value))
        return number.scaleb(-2, ARITHMETIC) if kind == "percent" else number
    if kind == "datetime":
        return None if value is None else utc(int(value))
    if kind in {"date", "time"}:
        return None if value is None else (date if kind == "date" else time).fromisoformat(str(value))
    text = "" if value is None else str(value)
    return text[:15] if kind in _ID_TYPES else text


def to_stored(kind: str, scale: int, value: Value) -> StoredValue:
    """Return a result as a field of that type holds it: numbers are rounded half up to the field's scale, texts are cut
    after 1,300 characters. Raises FormulaError if it is of another type."""
    if kind == "boolean":
        return bool(of_type(bool, value))
    if value is None:
        return None
    if kind in NUMBERS:
        number = of_type(Decimal, value)
        rounded = float(round_half_up(number.scaleb(2, ARITHMETIC) if kind == "percent" else number, scale)) + 0.0
        return int(rounded) if kind == "int" else rounded
    if kind == "datetime":
        return epoch_ms(of_type(datetime, value))
    if kind == "date":
        if isinstance(value, datetime):
            raise FormulaError("a date and time is no date")
        return of_type(date, value).isoformat()
    if kind == "time":
        return of_type(time, value).isoformat("milliseconds")
    return of_type(str, value)[:_LONGEST_TEXT] or None


def of_type(kind: type[_T], value: Value) -> _T:
    """Return a value that is of a type; a null where a checkbox is asked for is false. Raises FormulaError."""
    if kind is bool and value is None:
        return kind()
    if not isinstance(value, kind):
        raise FormulaError(f"{value!r} is not of type {kind.__name__}")
    return value


def round_half_up(number: Decimal, digits: int) -> Decimal:
    """Round to so many digits behind the point, before it if negative; ties go away from zero."""
    if number.adjusted() + digits >= ARITHMETIC.prec:
        return number  # it has no such digits
    digits = max(digits, -_MOST_DIGITS)
    return number.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP, context=ARITHMETIC)
