"""Describe: what objects there are and what their fields are (docs/salesforce-streams.md, "Describe")."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import DeleteConstraint, FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.platform_event_definition import PlatformEventDefinition
from sfcdc_assets.emulator.definitions.record_types import record_types
from sfcdc_assets.emulator.definitions.relationships import ChildRelationship, child_relationships
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.setup_objects import setup_definitions
from sfcdc_assets.emulator.soql.condition import is_filterable, is_groupable, is_sortable

OF_ANY_OBJECT: Mapping[str, Any] = {
    "deepCloneable": False,
    "isInterface": False,
}
"""Also in the list of all objects."""

OF_ONE_OBJECT: Mapping[str, Any] = {
    "actionOverrides": [],
    "compactLayoutable": False,
    "defaultImplementation": None,
    "extendedBy": None,
    "extendsInterfaces": None,
    "implementedBy": None,
    "implementsInterfaces": None,
    "listviewable": None,
    "lookupLayoutable": None,
    "namedLayoutInfos": [],
    "networkScopeFieldName": None,
    "searchLayoutable": False,
    "sobjectDescribeOption": "FULL",
    "supportedScopes": [{"label": "All records", "name": "everything"}],
}

OF_ANY_FIELD: Mapping[str, Any] = {
    "aiPredictionField": False,
    "cascadeDelete": False,
    "controllerName": None,
    "defaultValueFormula": None,
    "displayLocationInDecimal": False,
    "filteredLookupInfo": None,
    "highScaleNumber": False,
    "mask": None,
    "maskType": None,
    "queryByDistance": False,
    "referenceTargetField": None,
    "relationshipOrder": None,
    "restrictedDelete": False,
    "searchPrefilterable": False,
    "writeRequiresMasterRead": False,
}


MASTER_TYPE = "012000000000000AAA"
_SOAP_TYPES = {
    "id": "tns:ID", "reference": "tns:ID", "boolean": "xsd:boolean", "int": "xsd:int", "double": "xsd:double",
    "currency": "xsd:double", "percent": "xsd:double", "date": "xsd:date", "datetime": "xsd:dateTime",
    "time": "xsd:time", "base64": "xsd:base64Binary", "anyType": "xsd:anyType",
    "address": "urn:address", "location": "urn:location",
}  # fmt: skip


def add_describe(context: RestContext) -> None:
    """`sobjects` (all objects) and `sobjects/X/describe`; both answer 304 to an If-Modified-Since that is not older."""

    def all_objects(request: ApiRequest) -> Response:
        events = {name: each.shape for name, each in _events(context).items()}
        known = {**setup_definitions(), **events, **context.org.definitions}
        names = sorted(name for name in known if name not in context.org.hidden_objects)
        body = {
            "encoding": "UTF-8",
            "maxBatchSize": 200,
            "sobjects": [object_json(known[name], request.data_path) for name in names],
        }
        return _unless_known(context, request, body)

    def one_object(request: ApiRequest) -> Response:
        name = request.path["object"]
        event = context.platform_event(name)
        definition = event.shape if event else _setup_definition(name) or context.definition(name)
        body = {
            **object_json(definition, request.data_path),
            **OF_ONE_OBJECT,
            "fields": [field_json(field, definition.name_field) for field in definition.fields],
            "childRelationships": [
                _child_json(each)
                for each in child_relationships(definition, {**context.org.definitions, **context.computed.definitions})
            ],
            "recordTypeInfos": record_type_infos(definition, context.org.store.instance),
        }
        return _unless_known(context, request, body)

    context.add("/sobjects", {"GET": all_objects})
    context.add("/sobjects/{object}/describe", {"GET": one_object})


def _events(context: RestContext) -> Mapping[str, PlatformEventDefinition]:
    return context.org.platform_events.all if context.publisher is not None else {}


def _setup_definition(name: str) -> ObjectDefinition | None:
    return next((each for each in setup_definitions().values() if each.name.lower() == name.lower()), None)


def _child_json(each: ChildRelationship) -> dict[str, Any]:
    return {
        "cascadeDelete": each.field.delete_constraint is DeleteConstraint.CASCADE,
        "childSObject": each.child.name,
        "deprecatedAndHidden": False,
        "field": each.field.name,
        "junctionIdListNames": [],
        "junctionReferenceTo": [],
        "relationshipName": each.name,
        "restrictedDelete": each.field.delete_constraint is DeleteConstraint.RESTRICT,
    }


def record_type_infos(definition: ObjectDefinition, instance: str) -> list[dict[str, Any]]:
    """Return the record types of a describe: the object's own, the first being the user's default, and Master."""
    own = record_types(definition, instance)
    known = [*((each.name, each.developer_name, each.id) for each in own), ("Master", "Master", MASTER_TYPE)]
    return [
        {
            "active": True,
            "available": True,
            "defaultRecordTypeMapping": number == 0,
            "developerName": developer_name,
            "master": name == "Master",
            "name": name,
            "recordTypeId": record_type,
        }
        for number, (name, developer_name, record_type) in enumerate(known)
    ]


def object_json(definition: ObjectDefinition, data_path: str) -> dict[str, Any]:
    """Return the object-level part of a describe."""
    url = f"{data_path}/sobjects/{definition.name}"
    is_event = definition.name.endswith("__e")
    is_setup = definition.name in setup_definitions()
    is_written = definition.is_written and not is_setup and not is_event
    companion, access = definition.companion, definition.access
    return {
        **OF_ANY_OBJECT,
        "associateEntityType": companion.kind if companion else None,
        "associateParentEntity": companion.parent if companion else None,
        "name": definition.name,
        "label": definition.label,
        "labelPlural": definition.label_plural,
        "keyPrefix": definition.key_prefix,
        "custom": definition.custom,
        "customSetting": False,
        "activateable": False,
        "createable": is_written or is_event,
        "updateable": is_written,
        "deletable": is_written and definition.deletable,
        "undeletable": is_written and definition.is_undeletable,
        "mergeable": "MasterRecordId" in definition.fields_by_name,
        "queryable": access.queryable and not is_event,
        "retrieveable": access.queryable and access.retrieveable and not is_event,
        "replicateable": definition.is_replicateable and not is_setup and not is_event,
        "searchable": is_written,
        "layoutable": is_written,
        "triggerable": is_written or is_event,
        "deprecatedAndHidden": False,
        "feedEnabled": False,
        "hasSubtypes": False,
        "isSubtype": False,
        "mruEnabled": not is_event,
        "urls": {"sobject": url, "describe": f"{url}/describe", "rowTemplate": url + "/{ID}"},
    }


def field_json(field: FieldDefinition, name_field: str | None = "Name") -> dict[str, Any]:
    """One entry of a describe's `fields`. `name_field`: the object's, which people read as the record's name."""
    is_text = field.type in {"string", "textarea", "picklist", "multipicklist", "combobox", "phone", "email", "url"}
    return {
        **OF_ANY_FIELD,
        "name": field.name,
        "label": field.label,
        "type": field.type,
        "soapType": _SOAP_TYPES.get(field.type, "xsd:string"),
        "length": field.length,
        "byteLength": field.length * 3 if is_text else field.length,
        "precision": 0 if field.type == "int" else field.precision,
        "scale": field.scale,
        "digits": field.precision if field.type == "int" else 0,
        "nillable": field.nillable,
        "calculated": field.calculated,
        "calculatedFormula": field.calculated_formula,
        "formulaTreatNullNumberAsZero": field.is_formula and field.blank_is_zero,
        "custom": field.custom,
        "createable": field.createable,
        "updateable": field.updateable,
        "filterable": is_filterable(field),
        "sortable": is_sortable(field),
        "groupable": is_groupable(field),
        "aggregatable": is_filterable(field) and field.type != "boolean",
        "permissionable": field.nillable and field.name not in {"Id", "Name"},
        "referenceTo": list(field.reference_to),
        "relationshipName": field.relationship_name,
        "relationshipOrder": 0 if field.is_master_detail else None,
        "writeRequiresMasterRead": False,
        "cascadeDelete": field.delete_constraint is DeleteConstraint.CASCADE,
        "restrictedDelete": field.delete_constraint is DeleteConstraint.RESTRICT,
        "polymorphicForeignKey": len(field.reference_to) > 1,
        "compoundFieldName": field.compound_field_name,
        "externalId": field.external_id,
        "idLookup": field.external_id or field.name == "Id",
        "unique": field.unique,
        "caseSensitive": False,
        "autoNumber": field.auto_number is not None,
        "deprecatedAndHidden": False,
        "defaultValue": field.default,
        "defaultedOnCreate": field.default is not None or field.name == "OwnerId",
        "restrictedPicklist": field.restricted_picklist,
        "dependentPicklist": False,
        "picklistValues": [
            {
                "value": value,
                "label": dict(field.picklist_labels).get(value, value),
                "active": True,
                "defaultValue": value == field.default,
                "validFor": None,
            }
            for value in field.picklist_values
        ],
        "nameField": field.name == name_field,
        "namePointing": False,
        "encrypted": field.encrypted or field.type == "encryptedstring",
        "extraTypeInfo": field.extra_type_info,
        "htmlFormatted": field.extra_type_info == "richtextarea",
        "inlineHelpText": None,
    }


def _unless_known(context: RestContext, request: ApiRequest, body: dict[str, Any]) -> Response:
    modified = context.org.definitions_modified
    known = request.headers.get("if-modified-since")
    if known:
        try:
            moment = parsedate_to_datetime(known)
        except ValueError:
            moment = None
        if moment is not None and moment.replace(tzinfo=moment.tzinfo or UTC) >= modified:
            return Response(status_code=304)
    return JSONResponse(body, headers={"Last-Modified": format_datetime(modified, usegmt=True)})
