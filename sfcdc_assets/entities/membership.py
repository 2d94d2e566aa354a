"""What feeds an entity, as it was when somebody last looked and as it is now: what follows from the difference.

An object that is off its channel, or outside a filter, raises no event, and no later event says so. The org does tell
which member carries an object (another one after it was taken off and put back) and when that was last modified, so
most of it shows even if nobody looked in between. docs/org-changes.md has the table of what is told
and what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from sfcdc_assets.entities.entity_facts import readable_facts
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.change_of_channel import position_of_its_own
from sfcdc_assets.lake.tables.channel_members import note_members, noted_members
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.lost_checkpoints import entities_of_channel, rests_on
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.channel_members import ChannelMembers, Member
from sfcdc_assets.timeline.suspect import NewSuspect, Reason


class Conclusion(StrEnum):
    """What follows from how an entity was on its channel and how it is now."""

    NOTHING = "nothing"
    """Every change has raised its event, or the audit finds those that did not: a filter that was set."""
    READ_AGAIN = "read again"
    """Changes may have raised no event for a while: the entity is suspect, and is snapshotted."""
    WAIT = "wait"
    """Changes raise no event: the entity is suspect until it is back on the channel, and is then snapshotted."""


def conclusion(before: Member | None, now: Member | None) -> tuple[Conclusion, str]:
    """Return what follows, and why in words. None: it is not on the channel."""
    if now is None:
        return Conclusion.WAIT, "it is not on the channel any more, so its changes raise no event"
    if before is None:
        return Conclusion.READ_AGAIN, "it was off the channel and is back; its changes meanwhile raised no event"
    if before.id != now.id:
        since = f" (since {now.created_at:%Y-%m-%d %H:%M} UTC)" if now.created_at else ""
        return Conclusion.READ_AGAIN, f"it was taken off the channel and put back{since} while nobody looked"
    if before.filter_expression != now.filter_expression:
        if before.filter_expression is None:
            return Conclusion.NOTHING, "a filter was set; the audit finds what changes outside it"
        return Conclusion.READ_AGAIN, f"changes outside its last filter ({before.filter_expression}) raised no event"
    if before.modified_at and now.modified_at and before.modified_at != now.modified_at:
        return (
            Conclusion.READ_AGAIN,
            f"its member was modified at {now.modified_at:%Y-%m-%d %H:%M} UTC and is as before: "
            "a filter may have been set and removed while nobody looked",
        )
    return Conclusion.NOTHING, "it is as it was"


def follow_members(
    warehouse: Warehouse, channel: str, listed: ChannelMembers, fed_by: Mapping[str, str], now_ms: int
) -> tuple[str, ...]:
    """Compare what the org lists with what was noted, make suspect what may have missed events, and note it; returns
    the entities whose tables rest on the channel though it does not carry them any more.

    `fed_by`: entity -> channel; those that another one feeds by now are read again for that reason. The entry is noted
    first, so that a crash in between repeats both. Costs nothing where nothing has changed. Of a channel of one entity
    the org is not asked, so nothing is known of it.
    """
    if listed.entities and not listed.members:
        return ()
    noted = noted_members(warehouse, channel)
    names = noted.keys() | listed.members.keys()
    now = {entity: listed.members.get(entity) for entity in sorted(names)}
    if not noted:
        now = {**dict.fromkeys(entities_of_channel(warehouse, channel)), **now}
    mine = [entity for entity in now if fed_by.get(entity, channel) == channel]
    for entity in mine:
        if noted and now[entity] is not None and now[entity] != noted.get(entity):
            follows, why = conclusion(noted.get(entity), now[entity])
            if follows is Conclusion.READ_AGAIN and rests_on(warehouse, entity, channel):
                try:
                    note_suspect_entity(warehouse, entity, channel, Reason.MISSED_EVENTS, why, now_ms)
                except TableDamaged:
                    now[entity] = noted.get(entity)  # the conclusion is drawn when it is mended
    off = _copied(warehouse, channel, [entity for entity in mine if now[entity] is None])
    for entity, is_noted in off.items():
        if not is_noted:
            note_suspect_entity(
                warehouse, entity, channel, Reason.OFF_CHANNEL, conclusion(noted.get(entity), None)[1], now_ms
            )
    note_members(warehouse, channel, now, now_ms)
    return tuple(off)


def _copied(warehouse: Warehouse, channel: str, entities: list[str]) -> dict[str, bool]:
    """Return those whose tables rest on the channel, and whether it is noted that they are off it. A snapshot that
    somebody asked for answers the entry; it is opened again, as changes go on without an event."""
    facts = readable_facts(warehouse, dict.fromkeys(entities, channel))
    return {
        entity: any(suspect.reason is Reason.OFF_CHANNEL for suspect in each.suspects)
        for entity, each in facts.items()
        if each.has_watermark
    }


@retry_on_conflict
def note_suspect_entity(warehouse: Warehouse, entity: str, channel: str, reason: Reason, why: str, now_ms: int) -> None:
    """Make the entity suspect at a position of its own: after all that is in its rows, read-backs too, after what a
    snapshot stands for that is being read, and after all that made it suspect before. What happens once more is another
    entry, with a time of its own from which on a read answers it."""
    taken = Snapshots.open(warehouse, entity)
    progress = taken.progress() if taken else None
    ledger = Ledger.open_or_create(warehouse, entity)
    watermarks = [
        taken.highest_position() if taken and taken.has_watermark_on(channel) else 0,
        progress.position if progress and progress.channel == channel else 0,
        *ledger.holding_positions(channel),
    ]
    position = position_of_its_own(warehouse, entity, channel, max(watermarks))
    ledger.note([NewSuspect(ENTITY, reason, position, f"{entity}: {why}")], channel, position, now_ms)
