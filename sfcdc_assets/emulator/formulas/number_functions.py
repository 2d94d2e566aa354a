"""Functions of numbers. A null argument makes the result null."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, ROUND_UP, Context, Decimal

from sfcdc_assets.emulator.formulas.value import ARITHMETIC, Value, of_type, round_half_up

_MOST_DIGITS = 30
_EXACT = Context(prec=33, rounding=ROUND_HALF_UP)
_PI = Decimal("3.14159265358979323846264338327950288420")


def _of_numbers(compute: Callable[..., Decimal]) -> Callable[..., Value]:
    def computed(*arguments: Value) -> Value:
        if any(argument is None for argument in arguments):
            return None
        return compute(*(of_type(Decimal, argument) for argument in arguments))

    return computed


def _to_digits(rounding: str) -> Callable[[Decimal, Decimal], Decimal]:
    def rounded(number: Decimal, digits: Decimal) -> Decimal:
        places = int(digits)
        if places >= _MOST_DIGITS:
            return number
        if rounding == ROUND_HALF_UP:
            return round_half_up(number, places)
        return number.quantize(Decimal(1).scaleb(-places), rounding=rounding, context=ARITHMETIC)

    return rounded


def _to_whole(rounding: str) -> Callable[[Decimal], Decimal]:
    # The last digits of a number such as 1 / 3 * 3 are cut first, as the vendor's engine does.
    return lambda number: _EXACT.plus(number).quantize(Decimal(1), rounding=rounding, context=ARITHMETIC)


NUMBER_FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Value]]] = {
    "ABS": (1, 1, _of_numbers(ARITHMETIC.abs)),
    # Towards zero and away from it; MFLOOR and MCEILING go by the order of numbers.
    "FLOOR": (1, 1, _of_numbers(_to_whole(ROUND_DOWN))),
    "CEILING": (1, 1, _of_numbers(_to_whole(ROUND_UP))),
    "MFLOOR": (1, 1, _of_numbers(_to_whole(ROUND_FLOOR))),
    "MCEILING": (1, 1, _of_numbers(_to_whole(ROUND_CEILING))),
    "ROUND": (2, 2, _of_numbers(_to_digits(ROUND_HALF_UP))),
    "TRUNC": (1, 2, _of_numbers(lambda number, digits=Decimal(0): _to_digits(ROUND_DOWN)(number, digits))),
    "MIN": (1, 99, _of_numbers(min)),
    "MAX": (1, 99, _of_numbers(max)),
    "MOD": (2, 2, _of_numbers(ARITHMETIC.remainder)),
    "SQRT": (1, 1, _of_numbers(ARITHMETIC.sqrt)),
    "EXP": (1, 1, _of_numbers(ARITHMETIC.exp)),
    "LN": (1, 1, _of_numbers(ARITHMETIC.ln)),
    "LOG": (1, 1, _of_numbers(ARITHMETIC.log10)),
    "PI": (0, 0, lambda: _PI),
}
"""By name: the least and the most arguments, and what computes it."""
