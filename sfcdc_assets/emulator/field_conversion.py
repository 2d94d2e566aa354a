"""Conversions of a field's type that keep values in another form: a gap for each record (facts section 7)."""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org import Org


def convert_to_multi_select(org: Org, entity: str, name: str) -> int:
    """Make a picklist a multi-select one; returns how many records a GAP_UPDATE event tells of.

    Incompatible conversions null the field instead: `UnitOfWork.clear_field`. Raises RecordError for a field that is no
    picklist.
    """
    definition = org.definitions[entity]
    field = definition.field(name)
    if field is None or field.type != "picklist":
        raise RecordError("INVALID_OPERATION", f"{entity} has no picklist {name}", (name,))
    converted = replace(field, type="multipicklist")
    with org.database.transaction():
        org.replace_definition(
            definition.with_fields(tuple(converted if one is field else one for one in definition.fields))
        )
        with org.transaction() as unit_of_work:
            unit_of_work.convert_field(entity, field.name)
    return len(unit_of_work.committed.changes) if unit_of_work.committed else 0
