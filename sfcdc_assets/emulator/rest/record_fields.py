"""Reading records by id with chosen fields: through a query of the org's own, so that values have one form
everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.ids import is_id, to_18
from sfcdc_assets.emulator.rest.query import compile_for
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.spoiled_records import spoiled


def chosen_fields(definition: ObjectDefinition, names: Sequence[str]) -> list[str]:
    """Field names as defined, each once. Raises ApiError INVALID_FIELD for one the object does not have."""
    chosen: dict[str, None] = {}
    for name in names:
        field = definition.field(name.strip())
        if field is None:
            raise ApiError("INVALID_FIELD", f"No such column '{name.strip()}' on sobject of type {definition.name}")
        chosen[field.name] = None
    return list(chosen)


def read_records(
    context: RestContext, definition: ObjectDefinition, record_ids: Sequence[str], fields: Sequence[str], data_path: str
) -> dict[str, dict[str, Any]]:
    """Live records that the client may see, by their 18-character ids; other ids are not in the answer. Raises ApiError
    MALFORMED_ID."""
    try:
        wanted = {to_18(record_id) for record_id in record_ids}
    except ValueError:
        bad = next(record_id for record_id in record_ids if not is_id(record_id))
        raise ApiError("MALFORMED_ID", f"bad id {bad}") from None
    if not wanted:
        return {}
    id_list = ", ".join(f"'{record_id}'" for record_id in sorted(wanted))
    text = f"SELECT {', '.join(fields)} FROM {definition.name} WHERE Id IN ({id_list})"
    org = context.org
    compiled = compile_for(context, text, include_deleted=False)
    rows = org.rest_view.rows(compiled.sql, compiled.parameters)
    return {row[0]: spoiled(org.settings, row[0], record_json(compiled, row, data_path)) for row in rows}
