"""The first row of a record: what a client gave, and what the org fills in."""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.record_types import FIELD as RECORD_TYPE
from sfcdc_assets.emulator.definitions.record_types import record_types
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.opportunity_stage import has_stages, stage_of


def new_row(
    definition: ObjectDefinition, given: Mapping[str, StoredValue], *, number: int, owner_id: str, instance: str
) -> dict[str, StoredValue]:
    """All stored fields but the id and the audit fields: checked values, defaults, owner, autonumbers (of the record's
    `number`), the first record type and what the stage of an opportunity says. Raises RecordError
    REQUIRED_FIELD_MISSING."""
    row: dict[str, StoredValue] = {}
    for field in definition.stored_fields:
        name = field.name
        if name in given and (given[name] is not None or field.default is None):
            row[name] = given[name]
        elif field.auto_number is not None:
            row[name] = auto_number(field.auto_number, number)
        elif name == "OwnerId":
            row[name] = owner_id
        elif name == RECORD_TYPE and (types := record_types(definition, instance)):
            row[name] = types[0].id
        else:
            row[name] = field.default
        if row[name] is None and not field.nillable and field.createable:
            raise required_field_missing(field)
    if definition.name == "Opportunity" and has_stages(definition):
        stage = stage_of(row["StageName"])
        row.update(stage.read_only)
        row.update({name: value for name, value in stage.proposed.items() if row[name] is None})
    return row


def required_field_missing(field: FieldDefinition) -> RecordError:
    """Return the error of a field that must have a value and has none."""
    return RecordError("REQUIRED_FIELD_MISSING", f"Required fields are missing: [{field.name}]", (field.name,))


def auto_number(display_format: str, number: int) -> str:
    """`INV-{00000}` and 7 give `INV-00007`; a longer number is not cut."""
    before, braces, rest = display_format.partition("{")
    zeros, _, after = rest.partition("}")
    return f"{before}{number:0{len(zeros)}d}{after}" if braces else f"{before}{number}"
