"""Date functions such as CALENDAR_YEAR(CreatedDate): part of a day as a number, in UTC.

https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/sforce_api_calls_soql_select_date_functions.htm
The client's user lives in GMT, so convertTimezone changes nothing, and the fiscal year is that of the calendar.
"""

from __future__ import annotations

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import DateFunction

_PARTS = {
    "CALENDAR_YEAR": "%Y",
    "CALENDAR_MONTH": "%m",
    "DAY_IN_MONTH": "%d",
    "DAY_IN_YEAR": "%j",
    "FISCAL_YEAR": "%Y",
    "FISCAL_MONTH": "%m",
    "HOUR_IN_DAY": "%H",
}
_OF_MOMENTS = frozenset({"DAY_ONLY", "HOUR_IN_DAY"})


def date_part(function: DateFunction, column: str, field: FieldDefinition, text: str) -> tuple[str, FieldDefinition]:
    """Return the SQL expression and the form of a date function of a field. Raises QueryError INVALID_FIELD."""
    name = function.function
    allowed = {"datetime"} if name in _OF_MOMENTS or function.in_user_zone else {"date", "datetime"}
    if field.type not in allowed:
        reason = f"field {field.name} does not support the date function {name}"
        raise refusal("INVALID_FIELD", text, function.field.position, reason)
    # Seconds before 1970 have to be rounded down, which SQLite's division does not do.
    moment = f"{column} / 1000 - ({column} % 1000 < 0), 'unixepoch'" if field.type == "datetime" else column
    result = FieldDefinition(f"{name}({field.name})", field.label, "date" if name == "DAY_ONLY" else "int")
    if name == "DAY_ONLY":
        return f"date({moment})", result
    if name in _PARTS:
        return _number(_PARTS[name], moment), result
    if name in {"CALENDAR_QUARTER", "FISCAL_QUARTER"}:
        return f"({_number('%m', moment)} + 2) / 3", result
    if name == "DAY_IN_WEEK":  # Sunday is 1
        return f"({_number('%w', moment)} + 1)", result
    # The first week is that of the first seven days.
    return f"({_number('%d' if name == 'WEEK_IN_MONTH' else '%j', moment)} + 6) / 7", result


def _number(part: str, moment: str) -> str:
    return f"CAST(strftime('{part}', {moment}) AS INTEGER)"
