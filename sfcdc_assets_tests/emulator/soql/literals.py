"""Random literals that fit a type: values that records have, in the ways SOQL lets one write them."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from sfcdc_assets_tests.emulator.soql.org_facts import NOW, date_text
from sfcdc_assets_tests.emulator.soql.queries import Literal

MULTI_SELECTS = ("North", "East", "north;EAST", "South;West", "North;South;West", "Nowhere")
_UNITS = ("DAYS", "WEEKS", "MONTHS", "QUARTERS", "YEARS", "FISCAL_QUARTERS", "FISCAL_YEARS")
_DATE_LITERALS = (
    "YESTERDAY", "TODAY", "TOMORROW", "LAST_90_DAYS", "NEXT_90_DAYS",
    *(f"{which}_{unit.removesuffix('S')}" for which in ("LAST", "THIS", "NEXT") for unit in _UNITS[1:]),
    *(f"{which}_N_{unit}:" for which in ("LAST", "NEXT") for unit in _UNITS),
    *(f"N_{unit}_AGO:" for unit in _UNITS),
)  # fmt: skip
_ZONES = (0, 0, 60, -330, 720)


def literal(dice: random.Random, kind: str, value: Any, *, ordered: bool = False, dates: bool = True) -> Literal:
    """A literal for a field of that type, near a value. `ordered`: for `<` and its like, which have no null;
    `dates`: date literals are allowed."""
    if kind in {"date", "datetime"} and dates and dice.random() < 0.5:
        name = dice.choice(_DATE_LITERALS)
        text = f"{name}{dice.choice((1, 1, 2, 3, 12))}" if name.endswith(":") else name
        return Literal(dice.choice((text, text.lower())), None, is_date_literal=True)
    if not ordered and (value is None or dice.random() < 0.08):
        return Literal(dice.choice(("null", "NULL")), False if kind == "boolean" else None)
    if ordered and kind not in _WRITERS:
        return _exact_text(dice, value)
    return _WRITERS.get(kind, _text)(dice, value)


def quoted(dice: random.Random, text: str) -> str:
    """A text as a literal with its escapes."""
    escaped = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", '"': dice.choice(('"', '\\"'))}
    return "'" + "".join(escaped.get(char, char) for char in text) + "'"


def pattern(dice: random.Random, value: Any) -> Literal:
    """A LIKE pattern made of a value; stands for a regular expression over text in lower case."""
    wanted, regex = "'", ""
    characters = list(str(value or "a_b%")[:12])
    if dice.random() < 0.6:
        characters = [*characters[: dice.randrange(len(characters) + 1)], "%"]
    for char in characters:
        roll = dice.random()
        if roll < 0.12 or (char == "%" and roll < 0.9):
            wanted, regex = wanted + "%", regex + ".*"
        elif roll < 0.24 or (char == "_" and roll < 0.6):
            wanted, regex = wanted + "_", regex + "."
        elif char in "%_":
            wanted, regex = wanted + "\\" + char, regex + re.escape(char)
        else:
            written = quoted(dice, char.upper() if roll < 0.4 else char)[1:-1]
            wanted, regex = wanted + written, regex + re.escape(char.lower())
    return Literal(wanted + "'", regex)


def _text(dice: random.Random, value: Any) -> Literal:
    text = str(value) if value is not None else dice.choice(("a", "", "nothing like it"))
    text = dice.choice((text, text, text.upper(), text.lower(), text[:2]))
    return Literal(quoted(dice, text), text)


def _exact_text(dice: random.Random, value: Any) -> Literal:
    text = str(value or "m")
    return Literal(quoted(dice, text), text)


def _id(dice: random.Random, value: Any) -> Literal:
    record_id = str(value or "001000000000001AAA")
    return Literal(f"'{dice.choice((record_id, record_id[:15]))}'", record_id)


def _number(dice: random.Random, value: Any) -> Literal:
    number = (value or 0) + dice.choice((0, 0, 0, 1, -1))
    forms = [repr(number), f"{number:e}", f"{number:.4f}"]
    if number >= 0:
        forms.append(f"+{number}")
    if 0 < number < 1:
        forms.append(str(number)[1:])
    return Literal(dice.choice(forms), number)


def _boolean(dice: random.Random, value: Any) -> Literal:
    wanted = dice.random() < 0.5
    return Literal(dice.choice((str(wanted), str(wanted).upper(), str(wanted).lower())), wanted)


def _date(dice: random.Random, value: Any) -> Literal:
    text = value if isinstance(value, str) else date_text(value if value is not None else NOW)
    return Literal(text, text)


def _datetime(dice: random.Random, value: Any) -> Literal:
    milliseconds = NOW if value is None else value
    offset = dice.choice(_ZONES)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    there = moment.astimezone(timezone(timedelta(minutes=offset)))
    zone = there.strftime("%z")
    text = there.strftime("%Y-%m-%dT%H:%M:%S") + f".{milliseconds % 1000:03d}"
    text = text.removesuffix(".000") if dice.random() < 0.5 else text
    return Literal(
        text + (dice.choice(("Z", "z", zone)) if not offset else dice.choice((zone, f"{zone[:3]}:{zone[3:]}"))),
        milliseconds,
    )


def _time(dice: random.Random, value: Any) -> Literal:
    text = value or "09:00:00.000"
    short = text.removesuffix(".000") if dice.random() < 0.5 else text
    return Literal(short + dice.choice(("Z", "z")), text)


_WRITERS = {
    "id": _id, "reference": _id, "int": _number, "double": _number, "currency": _number, "percent": _number,
    "boolean": _boolean, "date": _date, "datetime": _datetime, "time": _time, "multipicklist": _exact_text,
}  # fmt: skip
