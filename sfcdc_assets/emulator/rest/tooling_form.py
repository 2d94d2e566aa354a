"""What the resources of the Tooling API share: their objects, and the form of records and of metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.computed_objects import computed_object
from sfcdc_assets.emulator.rest.record_json import rest_value

CREATED = {"success": True, "errors": [], "warnings": [], "infos": []}
"""What the answer to a creation says beside the id."""


OF_ONE_ROW = frozenset({"FullName", "Metadata"})
"""Fields that a query of more than one row may not select."""
Row = dict[str, str | int | None]
"""A row of an object of the Tooling API; its `Metadata` is JSON."""
_OF_METADATA = (
    "DeveloperName",
    "FullName",
    "Language",
    "ManageableState",
    "MasterLabel",
    "Metadata",
    "NamespacePrefix",
)


def tooling_object(name: str, prefix: str, fields: Sequence[str], name_field: str | None) -> ObjectDefinition:
    """Return an object of text fields, beside Id and the audit fields."""
    return computed_object(name, prefix, {field: {"type": "string"} for field in fields}, name_field)


def metadata_object(name: str, prefix: str, fields: Sequence[str]) -> ObjectDefinition:
    """Return an object of text fields that is a component of metadata."""
    return tooling_object(name, prefix, (*_OF_METADATA, *fields), "DeveloperName")


def metadata_row(developer_name: str, full_name: str, label: str, given: Mapping[str, Any]) -> Row:
    """Return what a row of such an object has of that; `given` is its metadata."""
    return {
        "DeveloperName": developer_name,
        "FullName": full_name,
        "Language": "en_US",
        "ManageableState": "unmanaged",
        "MasterLabel": label,
        "Metadata": json.dumps(given),
        "NamespacePrefix": None,
    }


def record_form(definition: ObjectDefinition, row: Row, request: ApiRequest) -> dict[str, Any]:
    """Return a row as the record that is read by its id."""
    url = f"{request.data_path}/tooling/sobjects/{definition.name}/{row['Id']}"
    given = json.loads(str(row["Metadata"]))
    values = {field.name: rest_value(field, row[field.name]) for field in definition.fields if field.name in row}
    return {"attributes": {"type": definition.name, "url": url}, **values, "Metadata": given}


def metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of a request. Raises ApiError REQUIRED_FIELD_MISSING."""
    given = document.get("Metadata")
    if not isinstance(given, dict):
        raise ApiError("REQUIRED_FIELD_MISSING", "Required fields are missing: [Metadata]", ("Metadata",))
    return given


def text(document: Mapping[str, Any], name: str) -> str:
    """Return a text that must be there. Raises ApiError REQUIRED_FIELD_MISSING."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ApiError("REQUIRED_FIELD_MISSING", f"Required fields are missing: [{name}]", (name,))
    return value


def optional_text(document: Mapping[str, Any], name: str) -> str | None:
    """Return a text, or None."""
    return text(document, name) if document.get(name) is not None else None
