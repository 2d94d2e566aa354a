"""Single records: read, create, update, upsert, delete, and the extensions `undelete`, `merge` and `convert`. A
platform event that is created is published.

Salesforce's REST API can neither restore nor merge records nor convert leads (its SOAP API can);
`POST .../sobjects/X/{id}/undelete`, `POST .../sobjects/X/{winner}/merge` and `POST .../sobjects/Lead/{id}/convert` are
this org's own additions, so that tests and demonstrations can do so with a plain REST call.
"""

from __future__ import annotations

import base64
from dataclasses import replace

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError, RecordError
from sfcdc_assets.emulator.org.ids import is_id, to_18
from sfcdc_assets.emulator.records.lead_conversion import CONVERTED_STATUS
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.record_fields import chosen_fields, read_records
from sfcdc_assets.emulator.rest.record_operations import MultipleChoicesError, RecordOperations, record_values
from sfcdc_assets.emulator.rest.rest_context import RestContext


def add_sobjects(context: RestContext) -> None:
    """Add the routes of single records."""
    resource = _RecordResource(context)
    context.add("/sobjects/{object}", {"POST": resource.create, "GET": resource.basic})
    record = "/sobjects/{object}/{id}"
    context.add(record, {"GET": resource.read, "PATCH": resource.update, "DELETE": resource.delete})
    context.add(f"{record}/undelete", {"POST": resource.undelete})
    context.add(f"{record}/merge", {"POST": resource.merge})
    context.add(f"{record}/Body", {"GET": resource.body})
    context.add("/sobjects/Lead/{id}/convert", {"POST": resource.convert})
    context.add(
        "/sobjects/{object}/{field}/{value}",
        {"GET": resource.read_by_external_id, "PATCH": resource.upsert, "DELETE": resource.delete_by_external_id},
    )


class _RecordResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._operations = RecordOperations(context)

    def basic(self, request: ApiRequest) -> Response:
        """Return the object (or platform event) itself and no recent items."""
        event = self._context.platform_event(request.path["object"])
        definition = event.shape if event else self._context.definition(request.path["object"], to_read=True)
        return JSONResponse({"objectDescribe": {"name": definition.name, "label": definition.label}, "recentItems": []})

    def create(self, request: ApiRequest) -> Response:
        """201 with the new id; of a platform event, which is published, with its uuid in `errors`."""
        event = self._context.platform_event(request.path["object"])
        if event is not None:
            with self._context.transaction(request):
                published = self._context.publish(request, event, record_values(request.json_object()))
            return JSONResponse(published, status_code=201)
        definition = self._context.definition(request.path["object"])
        with self._context.transaction(request) as unit_of_work:
            record_id = unit_of_work.create(definition.name, record_values(request.json_object()))
        return JSONResponse({"id": record_id, "success": True, "errors": []}, status_code=201)

    def read(self, request: ApiRequest) -> Response:
        """All fields of the record, or those of `?fields=A,B`."""
        definition = self._context.definition(request.path["object"], to_read=True)
        record_id = request.path["id"]
        names = request.query.get("fields")
        fields = chosen_fields(definition, names.split(",") if names else [field.name for field in definition.fields])
        if not is_id(record_id):
            raise ApiError("MALFORMED_ID", f"bad id {record_id}")
        with self._context.org.rest_view.shown():
            found = read_records(self._context, definition, [record_id], fields, request.data_path)
            if not found and self._is_deleted(definition, record_id):
                raise RecordError("ENTITY_IS_DELETED", "entity is deleted", status=404)
        if not found:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return JSONResponse(found[to_18(record_id)])

    def _is_deleted(self, definition: ObjectDefinition, record_id: str) -> bool:
        org = self._context.org
        record = org.record(definition.name, record_id) if definition.name in org.definitions else None
        return bool(record and record.get("IsDeleted"))

    def body(self, request: ApiRequest) -> Response:
        """Return the bytes of a file, such as an attachment's; of another object, `Body` is the value of an external
        id."""
        definition = self._context.definition(request.path["object"], to_read=True)
        field = definition.field("Body")
        if field is None or field.type != "base64":
            by_value = {"object": request.path["object"], "field": request.path["id"], "value": "Body"}
            return self.read_by_external_id(replace(request, path=by_value))
        org = self._context.org
        record = org.record(definition.name, request.path["id"]) if is_id(request.path["id"]) else None
        if record is None or record.get("IsDeleted"):
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return Response(base64.b64decode(str(record["Body"] or "")), media_type="application/octet-stream")

    def read_by_external_id(self, request: ApiRequest) -> Response:
        """Return the record that has the value in an external id field."""
        definition = self._context.definition(request.path["object"])
        self._context.check_readable(definition)
        field = self._operations.external_id_field(definition, request.path["field"])
        names = request.query.get("fields")
        fields = chosen_fields(definition, names.split(",") if names else [each.name for each in definition.fields])
        with self._context.org.rest_view.shown():
            record_id = self._holder(definition, field, request)
            found = read_records(self._context, definition, [record_id], fields, request.data_path)
        if not found:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return JSONResponse(found[to_18(record_id)])

    def upsert(self, request: ApiRequest) -> Response:
        """201 if the record was created, 200 if it was updated; 300 with their addresses if several have the value."""
        definition = self._context.definition(request.path["object"])
        field = self._operations.external_id_field(definition, request.path["field"])
        values = request.json_object()
        if any(name.lower() == field.name.lower() for name in values):
            message = f"The {field.name} field should not be specified in the sobject data."
            raise ApiError("INVALID_FIELD", message, (field.name,))
        record = {**values, field.name: request.path["value"]}
        change = self._operations.change("upsert", lambda: definition, record, external_id=field.name)
        try:
            with self._context.transaction(request) as unit_of_work:
                result = change(unit_of_work)
        except MultipleChoicesError as error:
            return self._choices(request, definition, error)
        body = {"id": result["id"], "success": True, "errors": [], "created": result["created"]}
        return JSONResponse(body, status_code=201 if result["created"] else 200)

    def delete_by_external_id(self, request: ApiRequest) -> Response:
        """204."""
        definition = self._context.definition(request.path["object"])
        field = self._operations.external_id_field(definition, request.path["field"])
        with self._context.transaction(request) as unit_of_work:
            unit_of_work.delete(definition.name, self._holder(definition, field, request))
        return Response(status_code=204)

    def _holder(self, definition: ObjectDefinition, field: FieldDefinition, request: ApiRequest) -> str:
        record_id = self._operations.holder(definition, field, request.path["value"])
        if record_id is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return record_id

    def _choices(self, request: ApiRequest, definition: ObjectDefinition, error: MultipleChoicesError) -> Response:
        prefix = f"{request.data_path}/sobjects/{definition.name}/"
        return JSONResponse([prefix + record_id for record_id in error.record_ids], status_code=300)

    def update(self, request: ApiRequest) -> Response:
        """204."""
        definition = self._context.definition(request.path["object"])
        with self._context.transaction(request) as unit_of_work:
            unit_of_work.update(definition.name, request.path["id"], record_values(request.json_object()))
        return Response(status_code=204)

    def delete(self, request: ApiRequest) -> Response:
        """204; the record is in the recycle bin."""
        definition = self._context.definition(request.path["object"])
        with self._context.transaction(request) as unit_of_work:
            unit_of_work.delete(definition.name, request.path["id"])
        return Response(status_code=204)

    def undelete(self, request: ApiRequest) -> Response:
        """200; the record is back from the recycle bin."""
        definition = self._context.definition(request.path["object"])
        with self._context.transaction(request) as unit_of_work:
            unit_of_work.undelete(definition.name, request.path["id"])
        return JSONResponse({"id": to_18(request.path["id"]), "success": True, "errors": []})

    def merge(self, request: ApiRequest) -> Response:
        """200; the body is `{"losers": [one or two ids], "reparent": true|false}`, `reparent` being true by default."""
        definition = self._context.definition(request.path["object"])
        document = request.json_object()
        losers, reparent = document.get("losers"), document.get("reparent", True)
        if not isinstance(losers, list) or not all(isinstance(loser, str) for loser in losers):
            raise ApiError("JSON_PARSER_ERROR", "losers must be a list of ids")
        with self._context.transaction(request) as unit_of_work:
            unit_of_work.merge(definition.name, request.path["id"], tuple(losers), reparent=reparent is True)
        return JSONResponse({"id": to_18(request.path["id"]), "success": True, "errors": []})

    def convert(self, request: ApiRequest) -> Response:
        """200 with the ids; the body may name `accountId`, `contactId`, `opportunityName`, `convertedStatus`, and
        `createOpportunity` may be false, or `doNotCreateOpportunity` true, as SOAP calls it."""
        document = request.json_object() if request.body.strip() else {}
        texts = {}
        for name in ("accountId", "contactId", "opportunityName", "convertedStatus"):
            texts[name] = document.get(name)
            if not isinstance(texts[name], str | None):
                raise ApiError("JSON_PARSER_ERROR", f"{name} must be a text")
        with self._context.transaction(request) as unit_of_work:
            lead = unit_of_work.convert_lead(
                request.path["id"],
                account_id=texts["accountId"],
                contact_id=texts["contactId"],
                opportunity=document.get("createOpportunity", True) is True
                and document.get("doNotCreateOpportunity", False) is False,
                opportunity_name=texts["opportunityName"],
                status=texts["convertedStatus"] or CONVERTED_STATUS,
            )
        ids = {"accountId": lead.account_id, "contactId": lead.contact_id, "opportunityId": lead.opportunity_id}
        return JSONResponse({"leadId": lead.lead_id, **ids, "success": True, "errors": []})
