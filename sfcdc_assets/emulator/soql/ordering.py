"""What ORDER BY, MIN and MAX go by: picklists by the order of their values, texts without case, nulls first.

https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/sforce_api_calls_soql_select_orderby.htm
"""

from __future__ import annotations

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.soql.literal_value import ID_TYPES, NOT_TEXT
from sfcdc_assets.emulator.soql.syntax import Ordering

_RANK_DIGITS = 4


def ordered(column: str, field: FieldDefinition, ordering: Ordering) -> str:
    """Return a term of SQL's ORDER BY."""
    direction, nulls = ("DESC" if ordering.descending else "ASC"), ("LAST" if ordering.nulls_last else "FIRST")
    return f"{_sort_key(column, field)} {direction} NULLS {nulls}"


def extreme(function: str, column: str, field: FieldDefinition) -> str:
    """MIN or MAX of a column, as a value of it."""
    if field.type == "picklist":
        return f"substr({function}({_ranked(column, field)} COLLATE sf), {_RANK_DIGITS + 1})"
    return f"{function}({column})" if field.type in NOT_TEXT | ID_TYPES else f"{function}({column} COLLATE sf)"


def _sort_key(column: str, field: FieldDefinition) -> str:
    if field.type in NOT_TEXT | ID_TYPES:
        return column
    return f"sf_sort({_ranked(column, field) if field.type == 'picklist' else column})"


def _ranked(column: str, field: FieldDefinition) -> str:
    """Return a picklist's value after its place in the list; values that are not in the list come last."""
    cases = " ".join(
        f"WHEN '{value.lower().replace(chr(39), chr(39) * 2)}' THEN {place}"
        for place, value in enumerate(field.picklist_values)
    )
    last = len(field.picklist_values)
    place = f"CASE sf_fold({column}) {cases} ELSE {last} END" if cases else "0"
    return f"(printf('%0{_RANK_DIGITS}d', {place}) || {column})"
