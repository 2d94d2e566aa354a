"""Functions of texts, which have capitals and small letters: "a" is not "A". A blank text is the empty one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal

from sfcdc_assets.emulator.formulas.value import ARITHMETIC, FormulaError, Value, of_type
from sfcdc_assets.emulator.org.ids import is_id, to_18

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's String.trim takes off both ends of a text."""
_LONGEST = 10_000
"""How long a text may become that a function fills."""


def _text(value: Value) -> str:
    return of_type(str, "" if value is None else value)


def _left(text: Value, count: Value) -> Value:
    return "" if count is None else _text(text)[: max(0, int(of_type(Decimal, count)))]


def _right(text: Value, count: Value) -> Value:
    length = 0 if count is None else max(0, int(of_type(Decimal, count)))
    return _text(text)[-length:] if length else ""


def _mid(text: Value, start: Value, count: Value) -> Value:
    if start is None or count is None:
        return ""
    first = max(1, int(of_type(Decimal, start))) - 1
    return _text(text)[first : first + max(0, int(of_type(Decimal, count)))]


def _find(search: Value, text: Value, start: Value = None) -> Value:
    first = 0 if start is None else max(0, int(of_type(Decimal, start)) - 1)
    wanted = _text(search)
    return Decimal(_text(text).find(wanted, first) + 1 if wanted else 0)


def _contains(text: Value, part: Value) -> Value:
    if not _text(part):
        return True
    return _text(part) in _text(text) if _text(text) else None


def _begins(text: Value, part: Value) -> Value:
    if not _text(part):
        return True
    return _text(text).startswith(_text(part)) if _text(text) else None


def _substitute(text: Value, old: Value, new: Value) -> Value:
    return _text(text).replace(_text(old), _text(new)) if _text(old) else _text(text)


def _includes(chosen: Value, value: Value) -> Value:
    return _text(value) in _text(chosen).split(";")


def _padded(text: Value, length: Value, padding: Value, *, left: bool) -> Value:
    if length is None:
        return ""
    whole, wanted, filling = _text(text), int(of_type(Decimal, length)), _text(padding)
    if not 0 <= wanted <= _LONGEST:
        raise FormulaError(f"{wanted} is no length of a text")
    missing = wanted - len(whole)
    if missing <= 0 or not filling or not whole:
        return whole[:wanted]
    filled = (filling * (missing // len(filling) + 1))[:missing]
    return filled + whole if left else whole + filled


def to_text(value: Value) -> str:
    """Return what TEXT makes of a value: numbers have no exponent and no zeros at the end, days are as in ISO 8601."""
    match value:
        case None:
            return ""
        case bool():
            raise FormulaError("TEXT takes no checkbox")
        case Decimal():
            return f"{ARITHMETIC.normalize(value):f}" if value else "0"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}Z"
        case date():
            return value.isoformat()
        case time():
            return value.isoformat("milliseconds")
    return value


def _to_number(text: Value) -> Value:
    given = _text(text)
    if not given:
        return None
    if not _NUMBER.fullmatch(given):
        raise FormulaError(f"{given!r} is no number")
    return ARITHMETIC.create_decimal(given)


def _is_number(text: Value) -> Value:
    return bool(_NUMBER.fullmatch(_text(text)))


def _with_18_characters(text: Value) -> Value:
    return to_18(_text(text)) if is_id(_text(text)) else _text(text)


TEXT_FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Value]]] = {
    "LEN": (1, 1, lambda text: Decimal(len(_text(text)))),
    "LEFT": (2, 2, _left),
    "RIGHT": (2, 2, _right),
    "MID": (3, 3, _mid),
    "FIND": (2, 3, _find),
    "CONTAINS": (2, 2, _contains),
    "BEGINS": (2, 2, _begins),
    "SUBSTITUTE": (3, 3, _substitute),
    "TRIM": (1, 1, lambda text: _text(text).strip(_BLANKS)),
    "UPPER": (1, 2, lambda text, _locale=None: _text(text).upper()),
    "LOWER": (1, 2, lambda text, _locale=None: _text(text).lower()),
    "LPAD": (2, 3, lambda text, length, padding=" ": _padded(text, length, padding, left=True)),
    "RPAD": (2, 3, lambda text, length, padding=" ": _padded(text, length, padding, left=False)),
    "REVERSE": (1, 1, lambda text: _text(text)[::-1]),
    "BR": (0, 0, lambda: "\n"),
    "TEXT": (1, 1, to_text),
    "VALUE": (1, 1, _to_number),
    "ISNUMBER": (1, 1, _is_number),
    "ISPICKVAL": (2, 2, lambda field, value: _text(field) == _text(value)),
    "INCLUDES": (2, 2, _includes),
    "CASESAFEID": (1, 1, _with_18_characters),
}
"""By name: the least and the most arguments, and what computes it."""
