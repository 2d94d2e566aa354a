"""Entities that were copied and that the user may not read any more.

Salesforce says nothing of it: it delivers no more of their events, as if nothing happened there. They are read whole
when the permission is given back.
"""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.org_reads.refused_reads import refuse_entity
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.state.doubt import Doubt


def note_not_readable(warehouse: Warehouse, org: OrgConnection, entities: Mapping[str, str], now_ms: int) -> None:
    """Note those of the entities (entity -> channel) that their channel still carries as refused. One that was deleted,
    or that an administrator took off the channel, is as it should be. Costs a request for each channel."""
    for channel in dict.fromkeys(entities.values()):
        listed = outcome_of(org.members, channel)
        position = RawEvents.open(warehouse).given_out(channel)
        for entity, of in entities.items():
            if of == channel and isinstance(listed, ChannelMembers) and entity in listed.entities:
                refuse_entity(warehouse, entity, Doubt.NOT_READABLE, channel, position, _why(entity), now_ms)


def _why(entity: str) -> str:
    return (
        f"The user may not read {entity} any more, so its events do not come. Give the user the permission "
        f"'View All Records' on {entity}, after which it is copied again, or leave it out of SFCDC_ENTITIES."
    )
