"""Which entities there are, which channel's events are applied for each, and what waits to be done.

Everything is shown by the tables (and by the org's channel members), never by Dagster's memory, so work that failed or
was forgotten is found again by whoever looks next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.entities.entity_facts import EntityFacts, entity_facts
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.entities.membership import follow_members
from sfcdc_assets.lake.errors import TableDamaged, UnreadableTable
from sfcdc_assets.lake.tables.channel_members import noted_members
from sfcdc_assets.lake.tables.damage import Unreadable, of_each_entity
from sfcdc_assets.lake.tables.open_suspect import ENTITY, blocking_suspects, due, entity_suspects
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import LAYER as SNAPSHOTS
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.channel_members import ChannelMembers, Member
from sfcdc_assets.salesforce.errors import NO_ANSWER, ApiLimitReached
from sfcdc_assets.schema_evolution.column_check import look_at_columns
from sfcdc_assets.settings.channel_kinds import feeds_entities
from sfcdc_assets.timeline.suspect import Reason

log = logging.getLogger(__name__)

_NOT_NOTED = object()


def entity_channels(
    warehouse: Warehouse,
    channels: Sequence[str],
    wanted: Sequence[str],
    members: Callable[[str], ChannelMembers | None],
) -> dict[str, str]:
    """Entity -> the channel whose events are applied to it.

    A channel's entities are those the org lists as its members or, if it does not say, those the stream has named.
    Where two channels carry an entity the first in `channels` counts, so that each event is applied once; an entity
    that none lists any more stays with the first that has named it. `wanted` filters, if not empty. When an entity has
    another channel than before, see `change_of_channel`. What has changed about the members since they were last listed
    is acted on and noted (`membership`); while `channel_members` is damaged a warning says that it waits. Channels that
    carry no change events have no entities.

    Of a channel whose members cannot be asked now (`NO_ANSWER`) they are those that were copied on it, which a warning
    says: its events are delivered all the same. Where no channel has any, what the org fails with is raised, unless it
    only takes no more API requests today.
    """
    channels = [channel for channel in channels if feeds_entities(channel)]
    raw_events = RawEvents.open(warehouse)
    named = {channel: sorted(raw_events.last_positions(channel)) for channel in channels}
    listed: dict[str, ChannelMembers | None] = {}
    unanswered: dict[str, SfcdcError] = {}
    for channel in channels:
        try:
            listed[channel] = members(channel)
        except NO_ANSWER as error:
            unanswered[channel] = error
            log.warning("Which objects %s carries cannot be asked, so the copied ones are followed: %s", channel, error)
    copied = _copied(warehouse, list(unanswered))
    found: dict[str, str] = {}
    for channel in channels:
        if channel in unanswered:
            carried: Iterable[str] = [entity for entity, of in copied.items() if of == channel]
        else:
            present = listed[channel]
            carried = named[channel] if present is None else present.entities
        found |= {entity: channel for entity in carried if entity not in found}
    for channel in listed:
        found |= {entity: channel for entity in named[channel] if entity not in found}
    for channel, description in listed.items():
        if description is None:
            continue
        try:
            off = follow_members(warehouse, channel, description, found, clock.now_ms())
        except (TableDamaged, UnreadableTable) as damage:  # conclusions are drawn when it is mended
            log.warning("What has changed about the members of %s cannot be found out: %s", channel, damage)
            continue
        found |= {entity: channel for entity in off if entity not in found}
    # On which channel these were copied cannot be read; on any of them they are reported as damaged.
    damaged = [entity for entity, of in copied.items() if isinstance(of, Unreadable) and entity not in found]
    found |= {entity: channel for channel in unanswered for entity in damaged}
    found = {entity: channel for entity, channel in found.items() if not wanted or entity in wanted}
    for failure in unanswered.values():
        if not found and not isinstance(failure, ApiLimitReached):
            raise failure
    return found


def _copied(warehouse: Warehouse, channels: Sequence[str]) -> Mapping[str, str | Unreadable | None]:
    """Entity -> the one of the channels that its newest snapshot has its watermark on, or why that cannot be read."""

    def copied_on(entity: str) -> str | None:
        taken = Snapshots.open(warehouse, entity)
        return next((channel for channel in channels if taken and taken.has_watermark_on(channel)), None)

    entities = warehouse.entities(SNAPSHOTS) if channels else ()
    return of_each_entity(copied_on, entities, warehouse.looks_at_once)


def entity_states(
    warehouse: Warehouse, channels: Mapping[str, str], now_ms: int | None = None, privacy: Privacy | None = None
) -> list[EntityState]:
    """Return the state of each entity of `entity_channels`: all that a tick or a run must know of it. Tables that have
    not changed since it was last asked for are not opened; of rows only those of the reconciliation ledgers are read.

    Given `privacy`, the settings of today, its columns are looked at too.
    """
    now = clock.now_ms() if now_ms is None else now_ms
    raw_events = RawEvents.open(warehouse)
    landed = {channel: raw_events.last_positions(channel) for channel in set(channels.values())}
    complete = {channel: raw_events.complete_position(channel) for channel in landed}
    noted = {channel: _noted(warehouse, channel) for channel in landed}
    schemas = Schemas(warehouse) if privacy is not None else None
    found = []
    for entity, facts in entity_facts(warehouse, channels).items():
        channel = channels[entity]
        last, whole = landed[channel].get(entity, 0), complete[channel]
        if not isinstance(facts, EntityFacts):
            found.append(_damaged(facts, entity, channel, last, whole))
            continue
        state = _state(facts, entity, channel, last, whole, now)
        if _is_off(noted[channel], entity, facts):
            state = replace(state, off_channel=True)
        if privacy is not None and schemas is not None:
            columns = look_at_columns(warehouse, schemas, entity, privacy, facts.snapshot_schema, facts.schema)
            state = replace(state, layout_changed=columns.layout_changed, privacy_changed=columns.privacy_changed)
        found.append(state)
    return found


def _noted(warehouse: Warehouse, channel: str) -> Mapping[str, Member | None] | None:
    """Return what was noted of a channel's members; None where that cannot be read."""
    try:
        return noted_members(warehouse, channel)
    except (TableDamaged, UnreadableTable):
        return None


def _is_off(noted: Mapping[str, Member | None] | None, entity: str, facts: EntityFacts) -> bool:
    """Return whether an entity is off its channel: where no note can be read, as when that was last found out."""
    if noted is not None:
        return noted.get(entity, _NOT_NOTED) is None
    return any(suspect.reason is Reason.OFF_CHANNEL for suspect in facts.suspects)


def _damaged(damage: Unreadable, entity: str, channel: str, landed: int, complete: int) -> EntityState:
    return EntityState(
        entity,
        channel,
        landed=landed,
        complete=complete,
        applied=None,
        snapshot_complete=0,
        snapshot_position=0,
        channel_changed=False,
        snapshot_applied=0,
        read_back_taken=0,
        read_back_applied=0,
        suspects_open=0,
        suspect_records=0,
        suspects_due=0,
        entity_suspect=None,
        blocked_from=None,
        blocked_last=None,
        suspects_marked=0,
        damaged=damage,
    )


def _state(facts: EntityFacts, entity: str, channel: str, landed: int, complete: int, now_ms: int) -> EntityState:
    checkpoint, suspects, watermark = facts.checkpoint, facts.suspects, facts.watermark
    refusals = [suspect for suspect in suspects if suspect.refuses_a_read]
    blocked = blocking_suspects(suspects, channel, watermark)
    return EntityState(
        entity,
        channel,
        landed=landed,
        complete=complete,
        applied=facts.applied,
        snapshot_complete=facts.snapshot_complete,
        snapshot_position=watermark,
        channel_changed=facts.snapshot_complete > 0 and not facts.has_watermark,
        snapshot_applied=checkpoint.snapshot if facts.are_built else 0,
        read_back_taken=facts.last_read_back,
        read_back_applied=checkpoint.read_back,
        suspects_open=len(suspects),
        suspect_records=sum(suspect.record_id != ENTITY for suspect in suspects),
        suspects_due=len(due(suspects, now_ms)),
        entity_suspect=max(entity_suspects(suspects, channel, watermark), default=None),
        blocked_from=min(blocked, default=None),
        blocked_last=max(blocked, default=None),
        suspects_marked=checkpoint.suspected,
        suspects_answered=any(
            suspect.record_id == ENTITY and not suspect.refuses_a_read and suspect.position_on(channel) <= watermark
            for suspect in suspects
        ),
        refused=refusals[-1].detail if refusals else None,
        snapshot_refused=any(suspect.attempts for suspect in refusals),
        paused=any(not suspect.is_due(now_ms) for suspect in refusals)
        or any(suspect.settles_at > now_ms for suspect in suspects),
        read_at=checkpoint.read_at,
        copied_at=facts.copied_at,
        versions=facts.versions,
    )
