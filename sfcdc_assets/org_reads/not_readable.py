"""Entities that were copied and that the user may not read any more, or not all records of.

Salesforce says nothing of it: it delivers no more of their events, as if nothing happened there. They are read whole
when the permission is given back.
"""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.entities.refused_reads import refuse_now
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.salesforce.view_all import ViewAllMissing
from sfcdc_assets.timeline.suspect import Reason


def note_not_readable(warehouse: Warehouse, org: OrgConnection, entities: Mapping[str, str]) -> None:
    """Note those of the entities (entity -> channel) that their channel still carries as refused. One that was deleted,
    or that an administrator took off the channel, is as it should be. Costs a request for each channel."""
    for channel in dict.fromkeys(entities.values()):
        listed = outcome_of(org.members, channel)
        for entity, of in entities.items():
            if of == channel and isinstance(listed, ChannelMembers) and entity in listed.entities:
                refuse_now(warehouse, entity, Reason.NOT_READABLE, channel, _why(entity))


def note_not_shown_whole(warehouse: Warehouse, org: OrgConnection, entities: Mapping[str, str]) -> None:
    """Note those of the entities (entity -> channel) of which the org says that the user lacks View All: their events
    come no more, and a read would show too little. Costs what `ViewAll` does, three requests in five minutes at most,
    and nothing where there are none. An org that does not answer this is asked again with the next describes."""
    for entity, channel in entities.items():
        missing = outcome_of(org.view_all.check, entity, "a snapshot")
        if isinstance(missing, ViewAllMissing):
            refuse_now(warehouse, entity, Reason.VIEW_ALL_MISSING, channel, str(missing))
        elif isinstance(missing, Exception):
            return


def _why(entity: str) -> str:
    return (
        f"The user may not read {entity} any more, so its events do not come. Give the user the permission "
        f"'View All Records' on {entity}, after which it is copied again, or leave it out of SFCDC_ENTITIES."
    )
