"""Descriptions of layouts, and recent items: an org without a user interface has one plain layout of each object, and
nobody has looked at anything."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.describe import MASTER_TYPE, record_type_infos
from sfcdc_assets.emulator.rest.rest_context import RestContext

_LAYOUT = "00h000000000000AAA"


def add_layouts(context: RestContext) -> None:
    """`describe/layouts` of an object, for all record types or one; `describe/compactLayouts`; `recent`."""

    def layouts(request: ApiRequest) -> Response:
        definition = context.definition(request.path["object"])
        instance = context.org.store.instance
        mappings = [
            {**each, "layoutId": _LAYOUT, "picklistsForRecordType": None}
            for each in record_type_infos(definition, instance)
        ]
        return JSONResponse(
            {
                "layouts": [_layout(definition)],
                "recordTypeMappings": mappings,
                "recordTypeSelectorRequired": [len(mappings) > 1],
            }
        )

    def layout(request: ApiRequest) -> Response:
        return JSONResponse(_layout(context.definition(request.path["object"])))

    def compact_layouts(request: ApiRequest) -> Response:
        definition = context.definition(request.path["object"])
        items = [_item(field) for field in definition.fields if field.name == definition.name_field]
        only = {
            "fieldItems": items,
            "id": None,
            "label": "System Default",
            "name": "SYSTEM",
            "objectType": definition.name,
        }
        mapping = {
            "available": True,
            "compactLayoutId": None,
            "compactLayoutName": "SYSTEM",
            "recordTypeId": MASTER_TYPE,
        }
        return JSONResponse(
            {"compactLayouts": [only], "defaultCompactLayoutId": None, "recordTypeCompactLayoutMappings": [mapping]}
        )

    def recent(_request: ApiRequest) -> Response:
        return JSONResponse([])

    context.add("/sobjects/{object}/describe/layouts", {"GET": layouts})
    context.add("/sobjects/{object}/describe/layouts/{record_type}", {"GET": layout})
    context.add("/sobjects/{object}/describe/compactLayouts", {"GET": compact_layouts})
    context.add("/recent", {"GET": recent})


def _layout(definition: ObjectDefinition) -> dict[str, Any]:
    """One section with each field on a row of its own."""
    shown = [field for field in definition.fields if field.compound_field_name is None and field.name != "IsDeleted"]
    rows = [{"layoutItems": [_item(field)], "numItems": 1} for field in shown]
    section = {
        "collapsed": False,
        "columns": 1,
        "heading": f"{definition.label} Detail",
        "layoutRows": rows,
        "layoutSectionId": None,
        "parentLayoutId": _LAYOUT,
        "rows": len(rows),
        "tabOrder": "LeftToRight",
        "useCollapsibleSection": False,
        "useHeading": True,
    }
    return {
        "buttonLayoutSection": None,
        "detailLayoutSections": [section],
        "editLayoutSections": [section],
        "feedView": None,
        "highlightsPanelLayoutSection": None,
        "id": _LAYOUT,
        "multirowEditLayoutSections": [],
        "offlineLinks": [],
        "quickActionList": None,
        "relatedContent": None,
        "relatedLists": [],
        "saveOptions": [],
    }


def _item(field: FieldDefinition) -> dict[str, Any]:
    component = {"displayLines": 1, "tabOrder": 1, "type": "Field", "value": field.name}
    return {
        "editableForNew": field.createable,
        "editableForUpdate": field.updateable,
        "label": field.label,
        "layoutComponents": [component],
        "placeholder": False,
        "required": not field.nillable and field.createable and field.default is None,
    }
