"""What the operators of formulas do with values.

A null operand makes a result null, but for texts, whose blank is a value: `null = ""` is true, and a comparison with
null is neither true nor false (https://github.com/salesforce/formula-engine, OperatorEquality, OperatorComparison).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from sfcdc_assets.emulator.formulas.value import ARITHMETIC, FormulaError, Value, of_type, round_half_up

_DAY = timedelta(days=1)


def add(left: Value, right: Value) -> Value:
    """Add numbers, days to a date or (in whole seconds) to a moment, milliseconds to a time; join texts."""
    if isinstance(left, str) or isinstance(right, str):
        return joined(left, right)
    if left is None or right is None:
        return None
    if isinstance(left, Decimal) and not isinstance(right, Decimal):
        left, right = right, left
    return _moved(left, of_type(Decimal, right))


def subtract(left: Value, right: Value) -> Value:
    """Subtract numbers, days from a date or a moment; days between two dates or two moments."""
    if left is None or right is None:
        return None
    if isinstance(right, Decimal):
        return _moved(left, ARITHMETIC.minus(right))
    if isinstance(left, datetime) and isinstance(right, datetime):
        return ARITHMETIC.divide(_microseconds(left - right), _microseconds(_DAY))
    if _is_day(left) and _is_day(right):
        return Decimal((of_type(date, left) - of_type(date, right)).days)
    raise FormulaError("operands of - do not fit")


def joined(left: Value, right: Value) -> Value:
    """Join two texts; a blank adds nothing."""
    return of_type(str, "" if left is None else left) + of_type(str, "" if right is None else right)


def equal(left: Value, right: Value) -> bool | None:
    """Compare; null with anything but a text is neither true nor false."""
    if isinstance(left, str) or isinstance(right, str):
        return of_type(str, "" if left is None else left) == of_type(str, "" if right is None else right)
    if left is None or right is None:
        return None
    _check_alike(left, right)
    return left == right


def unequal(left: Value, right: Value) -> bool | None:
    """Compare; null with anything but a text is neither true nor false."""
    result = equal(left, right)
    return None if result is None else not result


def _compared(fits: Callable[[int], bool]) -> Callable[[Value, Value], Value]:
    def compare(left: Value, right: Value) -> Value:
        if left is None or right is None or "" in (left, right):
            return None
        _check_alike(left, right)
        if isinstance(left, bool):
            raise FormulaError("checkboxes have no order")
        return fits((left > right) - (left < right))  # type: ignore[operator]  # they are of one type

    return compare


def _numeric(compute: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Value, Value], Value]:
    def computed(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        return compute(of_type(Decimal, left), of_type(Decimal, right))

    return computed


def _moved(value: Value, amount: Decimal) -> Value:
    try:
        if isinstance(value, Decimal):
            return ARITHMETIC.add(value, amount)
        if isinstance(value, datetime):
            seconds = round_half_up(ARITHMETIC.multiply(amount, Decimal(_DAY.total_seconds())), 0)
            return value + timedelta(seconds=int(seconds))
        if isinstance(value, date):
            return value + timedelta(days=int(amount))
        if isinstance(value, time):
            moment = datetime.combine(date(2000, 1, 1), value) + timedelta(milliseconds=int(amount))
            return moment.time()
    except OverflowError as error:
        raise FormulaError(str(error)) from error
    raise FormulaError(f"{value!r} is neither a number nor a moment")


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if exponent != exponent.to_integral_value():
        raise FormulaError("an exponent is a whole number")
    return Decimal(1) if exponent == 0 else ARITHMETIC.power(base, exponent)


def _microseconds(duration: timedelta) -> Decimal:
    return Decimal(duration // timedelta(microseconds=1))


def _is_day(value: Value) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def _check_alike(left: Value, right: Value) -> None:
    if type(left) is not type(right):
        raise FormulaError(f"{left!r} and {right!r} cannot be compared")


OPERATORS: Mapping[str, Callable[[Value, Value], Value]] = {
    "+": add,
    "-": subtract,
    "&": joined,
    "*": _numeric(ARITHMETIC.multiply),
    "/": _numeric(ARITHMETIC.divide),
    "^": _numeric(_power),
    "=": equal,
    "==": equal,
    "<>": unequal,
    "!=": unequal,
    "<": _compared(lambda order: order < 0),
    "<=": _compared(lambda order: order <= 0),
    ">": _compared(lambda order: order > 0),
    ">=": _compared(lambda order: order >= 0),
}
"""By the sign; `&&` and `||` compute their right side only if they need it, and are not here."""
