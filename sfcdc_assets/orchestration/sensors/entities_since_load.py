"""Entities that have come since definitions loaded: said by the tick, in the runs that it asks for, and in a note.

A code location has the assets that it had when it was loaded. A new entity's partitions, runs and tables are there at
once; the asset of its own is when it is loaded again, which only a person, or whoever deploys, does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import dagster as dg

from sfcdc_assets.lake.store.entities_without_asset import note_without_asset
from sfcdc_assets.orchestration.assets.front_doors import WAY_TO_ASSETS, WITHOUT_ASSET_TAG
from sfcdc_assets.orchestration.sensors.open_channel import OpenChannel
from sfcdc_assets.runtime.errors import enumerated

NAMED = 5


def with_entities_since_load(opened: OpenChannel, loaded: Collection[str], result: dg.SensorResult) -> dg.SensorResult:
    """Return what a tick came to, with the entities that it found and that are not among the `loaded` ones."""
    last_look = opened.last_look
    known = {each.lower() for each in loaded}  # as a person may have written them
    without = tuple(sorted(each for each in last_look.entities if each.lower() not in known))
    if last_look.entities and without != last_look.without_asset:
        note_without_asset(opened.warehouse, opened.channel, without)
        last_look.without_asset = without
    if not without:
        return result
    requests = [
        request.with_replaced_attrs(tags={**request.tags, WITHOUT_ASSET_TAG: enumerated(without, NAMED)})
        for request in result.run_requests or ()
    ]
    skipped = result.skip_reason.skip_message if isinstance(result.skip_reason, dg.SkipReason) else result.skip_reason
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else f"{skipped} {sentence(without)}",
        cursor=result.cursor,
        dynamic_partitions_requests=result.dynamic_partitions_requests,
        asset_events=result.asset_events,
    )


def sentence(entities: Sequence[str]) -> str:
    """Say what the entities lack, and what gives it to them."""
    lacks = "has no asset of its own" if len(entities) == 1 else "have no assets of their own"
    return f"{enumerated(entities, NAMED)} {lacks} before {WAY_TO_ASSETS}"
