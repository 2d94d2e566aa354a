"""What a person does to records in the org's own pages or in a terminal: values are text, each save a transaction.

The changes go through the same unit of work as those of REST, so they are refused for the same reasons and raise the
same events; their origin is that of Salesforce's own pages, and their user the org's one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.records.lead_conversion import ConvertedLead
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork

ORIGIN_OF_PAGES = "com/salesforce/api/soap/65.0;client=SfdcInternalAPI/"
"""changeOrigin of what people save in Salesforce's pages."""


class RecordEditing:
    """Changes records of one org. Every method raises RecordError, and then has changed nothing."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org

    def definition_of(self, target: str) -> ObjectDefinition:
        """Return the object of that name, or of the record with that id."""
        by_name = {definition.name.lower(): definition for definition in self._org.definitions.values()}
        by_prefix = {definition.key_prefix: definition for definition in self._org.definitions.values()}
        found = by_name.get(target.lower()) or by_prefix.get(target[:3])
        if found is None:
            known = ", ".join(self._org.definitions)
            raise RecordError("INVALID_TYPE", f"{target} is neither a record's id nor an object; there are {known}")
        return found

    def create(self, entity: str, values: Mapping[str, str]) -> str:
        """Return the new record's id. An empty text is no value."""
        with self._saved() as unit_of_work:
            return unit_of_work.create(entity, {name: value for name, value in values.items() if value})

    def update(self, entity: str, record_id: str, values: Mapping[str, str]) -> None:
        """Set fields; an empty text is null."""
        with self._saved() as unit_of_work:
            unit_of_work.update(entity, record_id, values)

    def delete(self, entity: str, record_id: str) -> None:
        """Move the record to the recycle bin."""
        with self._saved() as unit_of_work:
            unit_of_work.delete(entity, record_id)

    def undelete(self, entity: str, record_id: str) -> None:
        """Take the record back from the recycle bin."""
        with self._saved() as unit_of_work:
            unit_of_work.undelete(entity, record_id)

    def convert(self, lead_id: str) -> ConvertedLead:
        """Make an account, a contact and an opportunity of a lead."""
        with self._saved() as unit_of_work:
            return unit_of_work.convert_lead(lead_id)

    @contextmanager
    def _saved(self) -> Iterator[UnitOfWork]:
        with self._org.transaction(change_origin=ORIGIN_OF_PAGES) as unit_of_work:
            yield unit_of_work


def text_of(field: FieldDefinition, value: StoredValue) -> str:
    """Return a stored value as people read and write it; `stored_value` makes the same value of it again."""
    if field.type == "boolean":
        return "true" if value else "false"
    if value is None:
        return ""
    if field.type == "datetime":
        return datetime_text(int(value), "Z")
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def record_id_of(text: str) -> str:
    """Return the 18 characters of an id. Raises RecordError MALFORMED_ID."""
    try:
        return to_18(text)
    except ValueError as error:
        raise RecordError("MALFORMED_ID", str(error)) from None
