"""From a value as a client sends it (JSON) to the value the org stores, or Salesforce's own error for it."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.transaction import StoredValue

_EMAIL = re.compile(r"[^@\s<>,;]+@[^@\s<>,;]+\.[^@\s<>,;.]+")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_OFFSET = re.compile(r"([+-]\d\d)(\d\d)$")
_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's String.trim takes off both ends of a text: a no-break space or U+2028 stays."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_INT_RANGE = 2**31
_FIRST_MOMENT = -8_520_336_000_000
"""1700-01-01T00:00:00Z, the first moment Salesforce can store."""
_END_OF_TIME = 64_092_211_200_000
"""4001-01-01T00:00:00Z, the first moment it cannot."""


def stored_value(field: FieldDefinition, value: object) -> StoredValue:
    """Return the canonical stored form of a client's value.

    Text loses leading and trailing white space, empty text is null, numbers are rounded half up to the field's scale,
    ids get 18 characters, multi-select values stand once and in the order of the definition. Datetimes may be ISO 8601
    or epoch ms. Raises RecordError (JSON_PARSER_ERROR, STRING_TOO_LONG, MALFORMED_ID, NUMBER_OUTSIDE_VALID_RANGE ...).
    """
    if value is None:
        return False if field.type == "boolean" else None
    if isinstance(value, str) and not value.strip(_BLANKS) and field.type != "boolean":
        return None
    return _CONVERSIONS.get(field.type, _text)(field, value)


def is_text(value: object) -> bool:
    """Return whether it is a text that can be stored: JSON can spell half of a surrogate pair, UTF-8 cannot."""
    return isinstance(value, str) and (value.isascii() or _SURROGATE.search(value) is None)


def parse_datetime(text: str) -> int:
    """Epoch ms of an ISO 8601 datetime with `Z`, `+00:00` or `+0000`; a plain date is midnight UTC. Raises
    ValueError."""
    moment = datetime.fromisoformat(_OFFSET.sub(r"\1:\2", text) if len(text) > 10 else text)
    if moment.tzinfo is None:
        if len(text) > 10:
            raise ValueError(f"{text!r} has no time zone")
        moment = moment.replace(tzinfo=UTC)
    return math.floor(moment.timestamp()) * 1000 + moment.microsecond // 1000


def datetime_text(milliseconds: int, zone: str) -> str:
    """`2024-01-02T03:04:05.000` and the zone as given: `+0000` in REST, `Z` in Bulk API."""
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment.isoformat()[:19]}.{milliseconds % 1000:03d}{zone}"


def _wrong_json(field: FieldDefinition, value: object) -> RecordError:
    shown = "text" if isinstance(value, str) else type(value).__name__
    message = f"Cannot deserialize instance of {field.type} from {shown} value in field {field.name}"
    return RecordError("JSON_PARSER_ERROR", message, (field.name,))


def _text(field: FieldDefinition, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_json(field, value)
    text = value.strip(_BLANKS)
    if not is_text(text):
        raise _wrong_json(field, value)
    if field.length and len(text) > field.length:
        message = f"{field.label}: data value too large: {text[:80]} (max length={field.length})"
        raise RecordError("STRING_TOO_LONG", message, (field.name,))
    return text


def _base64(field: FieldDefinition, value: object) -> str:
    text = "".join(_text(field, value).split())
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        message = f"Cannot deserialize instance of base64 from VALUE_STRING value {text[:80]}"
        raise RecordError("JSON_PARSER_ERROR", message, (field.name,)) from None
    return text


def _email(field: FieldDefinition, value: object) -> str:
    text = _text(field, value)
    if not _EMAIL.fullmatch(text):
        raise RecordError("INVALID_EMAIL_ADDRESS", f"{field.label}: invalid email address: {text}", (field.name,))
    return text


def _picklist(field: FieldDefinition, value: object) -> str:
    text = _text(field, value)
    if field.restricted_picklist and text not in field.picklist_values:
        raise _restricted(field, text)
    return text


def _multi_picklist(field: FieldDefinition, value: object) -> str | None:
    chosen = dict.fromkeys(part.strip() for part in _text(field, value).split(";") if part.strip())
    unknown = [part for part in chosen if part not in field.picklist_values]
    if unknown and field.restricted_picklist:
        raise _restricted(field, unknown[0])
    return ";".join([part for part in field.picklist_values if part in chosen] + unknown) or None


def _restricted(field: FieldDefinition, text: str) -> RecordError:
    message = f"{field.label}: bad value for restricted picklist field: {text}"
    return RecordError("INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST", message, (field.name,))


def _reference(field: FieldDefinition, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_json(field, value)
    try:
        return to_18(value.strip())
    except ValueError:
        message = f"{field.label}: id value of incorrect type: {value.strip()}"
        raise RecordError("MALFORMED_ID", message, (field.name,)) from None


def _boolean(field: FieldDefinition, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise _wrong_json(field, value)


def _number(field: FieldDefinition, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _wrong_json(field, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong_json(field, value)
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        raise _wrong_json(field, value)
    return Decimal(str(value).strip())


def _out_of_range(field: FieldDefinition) -> RecordError:
    message = f"{field.label}: value outside of valid range on numeric field"
    return RecordError("NUMBER_OUTSIDE_VALID_RANGE", message, (field.name,))


def _int(field: FieldDefinition, value: object) -> int:
    number = _number(field, value)
    if not -_INT_RANGE <= number < _INT_RANGE:
        raise _out_of_range(field)
    if number != number.to_integral_value():
        raise _wrong_json(field, value)
    return int(number)


def _double(field: FieldDefinition, value: object) -> float:
    number = _number(field, value)
    if abs(number) >= Decimal(10) ** (field.precision - field.scale):
        raise _out_of_range(field)
    rounded = number.quantize(Decimal(1).scaleb(-field.scale), rounding=ROUND_HALF_UP)
    return float(rounded) + 0.0  # -0.0 becomes 0.0


def _date(field: FieldDefinition, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_json(field, value)
    try:
        if len(value.strip()) > 10:
            parse_datetime(value.strip())
        return date.fromisoformat(value.strip()[:10]).isoformat()
    except ValueError:
        raise _wrong_json(field, value) from None


def _datetime(field: FieldDefinition, value: object) -> int:
    if isinstance(value, str):
        try:
            moment = parse_datetime(value.strip())
        except (ValueError, OverflowError):
            raise _wrong_json(field, value) from None
    elif isinstance(value, int) and not isinstance(value, bool):
        moment = value
    else:
        raise _wrong_json(field, value)
    if not _FIRST_MOMENT <= moment < _END_OF_TIME:
        raise RecordError("NUMBER_OUTSIDE_VALID_RANGE", f"{field.label}: invalid date: {value}", (field.name,))
    return moment


def _time(field: FieldDefinition, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_json(field, value)
    try:
        return time.fromisoformat(value.strip().removesuffix("Z")).isoformat(timespec="milliseconds")[:12]
    except ValueError:
        raise _wrong_json(field, value) from None


_CONVERSIONS: dict[str, Callable[[FieldDefinition, object], StoredValue]] = {
    "boolean": _boolean,
    "int": _int,
    "double": _double,
    "currency": _double,
    "percent": _double,
    "date": _date,
    "datetime": _datetime,
    "time": _time,
    "email": _email,
    "base64": _base64,
    "picklist": _picklist,
    "multipicklist": _multi_picklist,
    "reference": _reference,
    "id": _reference,
}
