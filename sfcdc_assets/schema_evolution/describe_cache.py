"""What the org says an object is, followed while it lives.

Most of what an administrator changes shows in the schema of the next event. Some changes do not: a date that becomes a
date and time, a text that is cut, a number that is rounded have the same Avro form as before, and an object without
events has no next event (docs/salesforce-streams.md, "Field type conversions"). Only describe reports these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.object_shapes import keep_shapes
from sfcdc_assets.lake.tables.schemas import Schemas, describe_of
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.polls.object_schema import is_for, is_of_describe
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of, side_by_side
from sfcdc_assets.salesforce.describe import Described as DescribedObject
from sfcdc_assets.salesforce.errors import ORG_AWAY, ApiLimitReached, SessionExpired, UnexpectedAnswer

DESCRIBES_AT_ONCE = 8
_NOT_OF_THE_OBJECT = (*ORG_AWAY, UnexpectedAnswer, SessionExpired)
"""What a describe may end with that says nothing of its object; who answers with a page of HTML is no org."""


@dataclass(frozen=True)
class Described:
    """Entities that it was time for, what some of them failed with, and those that the org does not let the user
    read."""

    due: Collection[str]
    failed: Mapping[str, Exception]
    not_readable: Collection[str]


def is_to_be_described(schemas: Schemas, entity: str, now_ms: int, every_ms: int) -> bool:
    """Return whether the entity was described, and not in the last `every_ms`, or not since its schema changed. The
    first time, its snapshot does it. What was asked for in vain is asked for again after a growing pause."""
    known = schemas.of_entity(entity)
    if not any(schema.describe_json for schema in known) or not schemas.is_due(describe_of(entity), now_ms):
        return False
    return known[-1].describe_json is None or now_ms - schemas.described_at(entity) >= every_ms


def follow_describes(run: OrgRunContext, entities: Iterable[str], every_ms: int, most: int | None = None) -> Described:
    """Describe those that were not in the last `every_ms`, some at a time, and keep what is new of them, in one commit.
    `most`: no more, those that were described longest ago first.

    Costs one request of the org's API allowance for each. An object that may not be read is left as it was, and so are
    all while that allowance is used up, or the org answers no request, or with somebody else's page, or takes no token:
    events are applied without.
    """
    warehouse, org, now_ms = run.warehouse, run.org, clock.now_ms()
    spent: list[ApiLimitReached] = []

    def describe(entity: str) -> DescribedObject | None:
        if spent:
            raise spent[0]
        try:
            return org.describe(entity)
        except ApiLimitReached as error:
            spent.append(error)
            raise

    known = Schemas(warehouse)
    due = [entity for entity in entities if is_to_be_described(known, entity, now_ms, every_ms)]
    due = sorted(due, key=known.described_at)[:most]
    asked = dict(zip(due, side_by_side(describe, due, DESCRIBES_AT_ONCE), strict=True))
    later = {entity for entity, found in asked.items() if isinstance(found, _NOT_OF_THE_OBJECT)}
    failed = {entity: each for entity, each in asked.items() if isinstance(each, Exception) and entity not in later}
    described = {entity: found for entity, found in asked.items() if not isinstance(found, Exception)}

    @retry_on_conflict
    def keep() -> None:
        schemas, news = Schemas(warehouse), []
        for entity, found in described.items():
            last = schemas.of_entity(entity)[-1]
            polled = is_of_describe(last.schema_id)
            is_same = not polled or is_for(last.schema_json, org.poll.of(entity).fields)
            if found is None or entity in later or entity in failed or (is_same and found.json == last.describe_json):
                continue
            if last.describe_json is None:
                news.append(replace(last, first_seen_at=now_ms, describe_json=found.json))
            else:
                newest = outcome_of(org.newest_schema, entity, found, now_ms, polled=polled)
                if isinstance(newest, ORG_AWAY):
                    later.add(entity)
                elif isinstance(newest, Exception):
                    failed[entity] = newest
                else:
                    news.append(newest)
        done = [entity for entity in described if entity not in later and entity not in failed]
        unread = [entity for entity in done if described[entity] is None]
        in_vain = [describe_of(entity) for entity in [*failed, *later, *unread]]
        schemas.add(*news, described=dict.fromkeys(done, now_ms), in_vain=in_vain, now_ms=now_ms)

    if due:
        keep()
        keep_shapes(warehouse, [found.shape for found in described.values() if found is not None], now_ms)
    return Described(due, failed, [entity for entity, found in described.items() if found is None])
