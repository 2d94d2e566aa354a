"""What becomes of a field's values when its type changes, and what the stream says of it (docs/salesforce-streams.md,
"Field type conversions").

Compatible and truncating conversions raise no event, a picklist that becomes a checkbox or a multi-select one raises a
gap for each record that has a value, and all others null the field and raise one event for all records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.org.transaction import StoredValue

_TEXTS = frozenset(
    {"string", "textarea", "picklist", "combobox", "phone", "email", "url", "encryptedstring", "multipicklist"}
)
_NUMBERS = frozenset({"int", "double", "currency", "percent"})
_LOSING = frozenset({"date", "datetime", "boolean", "multipicklist"})
"""Types that lose all values when they become any other type; dates lose them the other way round, too."""
_INT_RANGE = 2**31
_TRUE = frozenset({"true", "yes", "1"})


class Notice(StrEnum):
    """How events tell of a conversion."""

    NONE = "none"
    GAPS = "gaps"
    WILDCARD = "wildcard"


@dataclass(frozen=True)
class FieldConversion:
    """`convert` is asked for values that are not null, and for all of a field that becomes a checkbox."""

    notice: Notice
    convert: Callable[[StoredValue], StoredValue]


def field_conversion(old: FieldDefinition, new: FieldDefinition) -> FieldConversion:
    """Return the conversion from one type, or length or scale, to another."""
    if old.type == "picklist" and new.type in {"multipicklist", "boolean"}:
        return FieldConversion(Notice.GAPS, _checked if new.type == "boolean" else _same)
    convert = _compatible(old, new)
    if convert is not None:
        return FieldConversion(Notice.NONE, convert)
    return FieldConversion(Notice.WILDCARD, _unchecked if new.type == "boolean" else _nothing)


def is_number(field: FieldDefinition) -> bool:
    """Return whether formulas can calculate with the field."""
    return field.type in _NUMBERS


def _compatible(old: FieldDefinition, new: FieldDefinition) -> Callable[[StoredValue], StoredValue] | None:
    if old.type != new.type and (old.type in _LOSING or new.type in {"date", "datetime"}):
        return None
    if new.type in _TEXTS:
        if new.type == "multipicklist" != old.type:
            return None
        return lambda value: _text(value)[: new.length or None].strip() or None
    if old.type in _NUMBERS and new.type in _NUMBERS:
        return lambda value: _number(new, value)
    if old.type == new.type:
        return _same
    return None


def _same(value: StoredValue) -> StoredValue:
    return value


def _nothing(_value: StoredValue) -> StoredValue:
    return None


def _unchecked(_value: StoredValue) -> StoredValue:
    return False


def _checked(value: StoredValue) -> StoredValue:
    return str(value).lower() in _TRUE


def _text(value: StoredValue) -> str:
    if isinstance(value, int | float):
        plain = f"{Decimal(str(value)):f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return str(value)


def _number(new: FieldDefinition, value: StoredValue) -> StoredValue:
    """Round a number half up to the new scale; what does not fit the new range is lost."""
    number = Decimal(str(value)).quantize(Decimal(1).scaleb(-new.scale), rounding=ROUND_HALF_UP)
    if new.type == "int":
        return int(number) if -_INT_RANGE <= number < _INT_RANGE else None
    return float(number) + 0.0 if abs(number) < Decimal(10) ** (new.precision - new.scale) else None
