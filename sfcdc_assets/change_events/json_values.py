"""Values of a change event in JSON, as Avro has them.

Times are texts of ISO 8601 in JSON and milliseconds in Avro. Avro's bytes cannot hold a value of another type than the
schema's; JSON can, so here each is checked: what does not fit is refused, never turned into something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

from sfcdc_assets.change_events.cell_value import TIMES, SourceKind
from sfcdc_assets.change_events.event_schema import SchemaField
from sfcdc_assets.runtime.foreign_text import unicode_text
from sfcdc_assets.runtime.times import epoch_ms


def avro_value(field: SchemaField, value: Any, kind: SourceKind | None = None) -> Any:
    """Return the value of a field; the parts of a compound one that it does not carry are null. `kind`: which kind of
    time it is to be, as the doc may be that of a type that the field had before.

    Raises `ValueError` for a value that is not of the field's type, and for a part that the field does not have.
    """
    if value is None:
        return None
    if kind in TIMES and isinstance(value, str) and _is_time_of_day(value) is not (kind is SourceKind.TIME):
        raise ValueError(f"{field.name} is a {kind}, and is not written as one")
    if isinstance(value, Mapping) and field.children is not None:
        parts = {child.name: child for child in field.children}
        unknown = value.keys() - parts.keys()
        if unknown:
            raise ValueError(f"{field.name} has no part {min(unknown)}")
        return {name: avro_value(child, value.get(name)) for name, child in parts.items()}
    reader = _READERS.get(field.scalar or "")
    if reader is None:
        raise ValueError(f"{field.name} is not a {type(value).__name__}")
    return reader(field, value)


def _is_time_of_day(value: str) -> bool:
    """Return whether a time is written as one of a day, `22:33:10.000Z`, which is no date (`2021-01-20`) and no moment
    (`2021-01-20T22:33:10.000Z`). A date is the moment at its midnight."""
    return value[2:3] == ":"


def _text(field: SchemaField, value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit(field, value)
    return unicode_text(value)


def _boolean(field: SchemaField, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _misfit(field, value)
    return value


def _integer(field: SchemaField, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise _misfit(field, value)
    return int(value)


def _number(field: SchemaField, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _misfit(field, value)
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{field.name} is a number that no {field.scalar} holds")
    return number


def _long(field: SchemaField, value: Any) -> int:
    """Milliseconds of a time, or a number that is no time."""
    if not isinstance(value, str):
        return _integer(field, value)
    try:
        moment = datetime.fromisoformat(f"1970-01-01T{value}" if _is_time_of_day(value) else value)
    except ValueError:
        # The library's text quotes the value, which may be private.
        raise ValueError(f"{field.name} is no time of ISO 8601") from None
    return epoch_ms(moment)


def _texts(field: SchemaField, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _misfit(field, value)
    return [unicode_text(each) for each in value]


def _misfit(field: SchemaField, value: Any) -> ValueError:
    return ValueError(f"{field.name} is a {field.scalar}, and the event has a {type(value).__name__}")


_READERS: Mapping[str, Callable[[SchemaField, Any], Any]] = {
    "string": _text,
    "enum": _text,
    "boolean": _boolean,
    "int": _integer,
    "long": _long,
    "double": _number,
    "float": _number,
    "array": _texts,
}
