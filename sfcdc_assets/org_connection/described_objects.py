"""What the org has just said an object is, as `schemas` keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.describe import Described

if TYPE_CHECKING:
    from sfcdc_assets.org_connection.org_connection import OrgConnection


def note_described(org: OrgConnection, schemas: Schemas, entity: str, described: Described, *, polled: bool) -> None:
    """Add the object's newest schema to `schemas`, unless it is the last one there, and when it was described. Raises
    what `newest_schema` and `Schemas.add` raise."""
    now_ms = clock.now_ms()
    newest = org.newest_schema(entity, described, now_ms, polled=polled)
    known = schemas.of_entity(entity)
    is_news = not known or (known[-1].schema_id, known[-1].describe_json) != (newest.schema_id, newest.describe_json)
    schemas.add(*([newest] if is_news else []), described={entity: now_ms})
