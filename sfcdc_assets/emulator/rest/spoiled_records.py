"""Records that the org cannot give as they should be given (`OrgSettings.spoiled_records`)."""

from __future__ import annotations

from typing import Any

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.settings import OrgSettings

NO_VALUE = "#Error!"
"""Stands in the place of a spoiled value."""


def spoiled_fields(settings: OrgSettings, record_id: object) -> tuple[str, ...]:
    """Names of the fields whose values are spoiled, of a record of a bulk query."""
    return tuple(settings.spoiled_records.get(str(record_id), ()))


def spoiled(settings: OrgSettings, record_id: object, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values by field name as the org gives them. Raises ApiError for a record that it cannot give at
    all."""
    fields = settings.spoiled_records.get(str(record_id))
    if fields is None:
        return values
    if not fields:
        raise ApiError("UNKNOWN_EXCEPTION", "An unexpected error occurred.", status=500)
    return {name: NO_VALUE if name in fields else value for name, value in values.items()}
