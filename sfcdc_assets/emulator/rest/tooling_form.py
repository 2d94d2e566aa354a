"""What the resources of the Tooling API share: their objects, and the form of records and of metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.computed_objects import computed_object

CREATED = {"success": True, "errors": [], "warnings": [], "infos": []}
"""What the answer to a creation says beside the id."""


def tooling_object(name: str, prefix: str, fields: Sequence[str], name_field: str | None) -> ObjectDefinition:
    """An object of text fields, beside Id and the audit fields."""
    return computed_object(name, prefix, {field: {"type": "string"} for field in fields}, name_field)


def attributes(definition: ObjectDefinition, record_id: str, request: ApiRequest) -> dict[str, Any]:
    """The `attributes` of a record."""
    url = f"{request.data_path}/tooling/sobjects/{definition.name}/{record_id}"
    return {"attributes": {"type": definition.name, "url": url}}


def metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of a request. Raises ApiError REQUIRED_FIELD_MISSING."""
    given = document.get("Metadata")
    if not isinstance(given, dict):
        raise ApiError("REQUIRED_FIELD_MISSING", "Required fields are missing: [Metadata]", ("Metadata",))
    return given


def text(document: Mapping[str, Any], name: str) -> str:
    """A text that must be there. Raises ApiError REQUIRED_FIELD_MISSING."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ApiError("REQUIRED_FIELD_MISSING", f"Required fields are missing: [{name}]", (name,))
    return value


def optional_text(document: Mapping[str, Any], name: str) -> str | None:
    """A text, or None."""
    return text(document, name) if document.get(name) is not None else None
