"""What one record of a request is to become: created, updated, upserted or deleted.

Record collections, trees, bulk jobs and single upserts all run these, many of them in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError, RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.records.field_value import stored_value
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext

Change = Callable[[UnitOfWork], dict[str, Any]]
"""Makes one record's change and returns its `id` and, for an upsert, whether it was `created`; raises ApiError."""
_SURVIVES = "survives"
"""Marks the result of an event that is published even if everything else is rolled back."""
OPERATIONS = ("insert", "update", "upsert", "delete", "hardDelete")


class MultipleChoicesError(ApiError):
    """An external id that several records have."""

    def __init__(self, field: FieldDefinition, record_ids: Sequence[str]) -> None:
        self.record_ids = tuple(record_ids)
        found = ", ".join(record_ids)
        message = f"{field.name}: more than one record found for external id field: [{found}]"
        super().__init__("DUPLICATE_EXTERNAL_ID", message, status=300)


class _AllOrNoneFailedError(Exception):
    """Leaves the transaction so that it is rolled back; the results tell why."""


class RecordOperations:
    """The operations of one org."""

    def __init__(self, context: RestContext) -> None:
        self._context = context

    def definition_of(self, record: Mapping[str, Any]) -> ObjectDefinition:
        """Return the object a record says it is of. Raises RecordError."""
        attributes = record.get("attributes")
        name = attributes.get("type") if isinstance(attributes, dict) else None
        if not isinstance(name, str):
            raise RecordError("INVALID_INPUT", "attributes.type must name the object")
        try:
            return self._context.definition(name)
        except ApiError:
            raise RecordError("INVALID_TYPE", f"sObject type '{name}' is not supported.") from None

    def change(
        self,
        operation: str,
        definition: Callable[[], ObjectDefinition],
        record: Mapping[str, Any],
        external_id: str = "Id",
    ) -> Change:
        """Return the change that one of `OPERATIONS` makes of a record; `definition` may raise when the change is
        made."""

        def change(unit_of_work: UnitOfWork) -> dict[str, Any]:
            return self._change(unit_of_work, operation, definition(), record, external_id)

        return change

    def insertion(self, request: ApiRequest, record: Mapping[str, Any]) -> Change:
        """Create a record, or publish it if it is of a platform event."""
        attributes = record.get("attributes")
        name = attributes.get("type") if isinstance(attributes, dict) else None
        event = self._context.platform_event(name) if isinstance(name, str) else None
        if event is None:
            return self.change("insert", partial(self.definition_of, record), record)

        def publish(_unit_of_work: UnitOfWork) -> dict[str, Any]:
            published = self._context.publish(request, event, record_values(record))
            return published | ({_SURVIVES: True} if event.is_immediate else {})

        return publish

    def deletion(self, record_id: str) -> Change:
        """Delete a record of which only the id is known."""

        def change(unit_of_work: UnitOfWork) -> dict[str, Any]:
            unit_of_work.delete(self._context.definition(self.entity_of(record_id)).name, record_id)
            return {"id": to_18(record_id)}

        return change

    def entity_of(self, record_id: str) -> str:
        """Return the object that an id belongs to. Raises RecordError MALFORMED_ID."""
        for definition in self._context.org.definitions.values():
            if record_id.startswith(definition.key_prefix):
                return definition.name
        raise RecordError("MALFORMED_ID", f"malformed id {record_id}")

    def external_id_field(self, definition: ObjectDefinition, name: str) -> FieldDefinition:
        """Return a field that an upsert may go by. Raises ApiError NOT_FOUND."""
        field = definition.field(name)
        if field is None or not (field.external_id or field.name == "Id"):
            message = f"Provided external ID field does not exist or is not accessible: {name}"
            raise ApiError("NOT_FOUND", message, status=404)
        return field

    def holder(self, definition: ObjectDefinition, field: FieldDefinition, value: object) -> str | None:
        """Return the id of the live record with a value in an external id field, or None. Raises
        MultipleChoicesError."""
        try:
            wanted = stored_value(field, value)
        except RecordError:
            return None
        found = self._context.org.store.holders_of(definition, field, wanted)
        if len(found) > 1:
            raise MultipleChoicesError(field, found)
        return found[0] if found else None

    def run(self, request: ApiRequest, changes: Sequence[Change], *, all_or_none: bool) -> list[dict[str, Any]]:
        """All changes in one transaction, with a result each in the form of record collections."""
        results: list[dict[str, Any]] = []
        with suppress(_AllOrNoneFailedError), self._context.transaction(request) as unit_of_work:
            for change in changes:
                try:
                    results.append({"success": True, "errors": [], **change(unit_of_work)})
                except ApiError as error:
                    results.append(_failure(error))
            if all_or_none and not all(result["success"] for result in results):
                raise _AllOrNoneFailedError
        survivors = [result.pop(_SURVIVES, False) for result in results]
        if not all_or_none or all(result["success"] for result in results):
            return results
        rolled_back = RecordError(
            "ALL_OR_NONE_OPERATION_ROLLED_BACK",
            "Record rolled back because not all records were valid and the request was using AllOrNone header",
        )
        return [
            _failure(rolled_back) if result["success"] and not survives else result
            for result, survives in zip(results, survivors, strict=True)
        ]

    def _change(
        self,
        unit_of_work: UnitOfWork,
        operation: str,
        definition: ObjectDefinition,
        record: Mapping[str, Any],
        external_id: str,
    ) -> dict[str, Any]:
        values = self._with_references(definition, record_values(record))
        key = next((name for name in values if name.lower() == "id"), None)
        record_id = None if key is None else str(values.pop(key) or "") or None
        if operation == "insert":
            if record_id is not None:
                raise RecordError("INVALID_FIELD_FOR_INSERT_UPDATE", "cannot specify Id in an insert call", ("Id",))
            return {"id": unit_of_work.create(definition.name, values)}
        if operation == "upsert":
            return self._upsert(unit_of_work, definition, external_id, record_id, values)
        if record_id is None:
            raise RecordError("MISSING_ARGUMENT", f"Id not specified in an {operation} call")
        if operation == "update":
            unit_of_work.update(definition.name, record_id, values)
        elif operation == "delete":
            unit_of_work.delete(definition.name, record_id)
        else:
            unit_of_work.hard_delete(definition.name, record_id)
        return {"id": to_18(record_id)}

    def _upsert(
        self,
        unit_of_work: UnitOfWork,
        definition: ObjectDefinition,
        external_id: str,
        record_id: str | None,
        values: dict[str, Any],
    ) -> dict[str, Any]:
        field = self.external_id_field(definition, external_id)
        if field.name != "Id":
            given = next((value for name, value in values.items() if name.lower() == field.name.lower()), None)
            if given is None or given == "":
                raise RecordError("MISSING_ARGUMENT", f"{field.name} not specified", (field.name,))
            record_id = self.holder(definition, field, given)
        if record_id is None:
            return {"id": unit_of_work.create(definition.name, values), "created": True}
        unit_of_work.update(definition.name, record_id, values)
        return {"id": to_18(record_id), "created": False}

    def _with_references(self, definition: ObjectDefinition, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with each parent named by its external id (`Account: {External_Key__c: x}`) named by its
        id."""
        result: dict[str, Any] = {}
        for name, value in values.items():
            if not isinstance(value, dict):
                result[name] = value
                continue
            reference = next(
                (field for field in definition.fields if (field.relationship_name or "").lower() == name.lower()), None
            )
            keys = [key for key in value if key != "attributes"]
            if reference is None or len(reference.reference_to) != 1 or len(keys) != 1:
                raise RecordError(
                    "INVALID_FIELD", f"Cannot reference a foreign key field {name}. The JSON object is not one", (name,)
                )
            parent = self._context.definition(reference.reference_to[0])
            record_id = self.holder(parent, self.external_id_field(parent, keys[0]), value[keys[0]])
            if record_id is None:
                raise RecordError(
                    "INVALID_FIELD",
                    f"Foreign key external ID: {value[keys[0]]} not found for field {keys[0]} in entity {parent.name}",
                    (name,),
                )
            result[reference.name] = record_id
        return result


def record_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field values of a record in a request: all but `attributes`."""
    return {name: value for name, value in document.items() if name != "attributes"}


def _failure(error: ApiError) -> dict[str, Any]:
    # In a collection a record that is not there is a bad reference, not a missing resource.
    not_found = error.message == "The requested resource does not exist"
    return {
        "success": False,
        "errors": [
            {
                "statusCode": "INVALID_CROSS_REFERENCE_KEY" if not_found else error.error_code,
                "message": "invalid cross reference id" if not_found else error.message,
                "fields": list(error.fields),
            }
        ],
    }
