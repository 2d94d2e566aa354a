"""What the org says an object is, followed while it lives.

Most of what an administrator changes shows in the schema of the next event. Some changes do not: a date that becomes a
date and time, a text that is cut, a number that is rounded have the same Avro form as before, and an object without
events has no next event (docs/salesforce-streams.md, "Field type conversions"). Only describe reports these.
"""

from __future__ import annotations

from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.org_connection import OrgConnection


def is_to_be_described(schemas: Schemas, entity: str, now_ms: int, every_ms: int) -> bool:
    """Whether the entity is known and was not described in the last `every_ms`."""
    return bool(schemas.of_entity(entity)) and now_ms - schemas.described_at(entity) >= every_ms


@retry_on_conflict
def follow_describe(warehouse: Warehouse, org: OrgConnection, entity: str, now_ms: int, every_ms: int) -> None:
    """Describe the entity if that was not done in the last `every_ms`, and keep what is new of it.

    Costs one request of the org's API allowance. An object that may not be read is left as it was.
    """
    schemas = Schemas(warehouse)
    if not is_to_be_described(schemas, entity, now_ms, every_ms):
        return
    known = schemas.of_entity(entity)
    described = org.describe_json(entity)
    if described is not None and described != known[-1].describe_json:
        schemas.add(org.newest_schema(entity, now_ms))
    schemas.note_described(entity, now_ms)
