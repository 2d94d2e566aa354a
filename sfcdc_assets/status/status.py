"""How the warehouse stands: each channel's checkpoint and each entity's table, from the tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE, Compounds, Privacy
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.store.allowance_notes import read_allowances
from sfcdc_assets.lake.store.entities_without_asset import without_asset
from sfcdc_assets.lake.store.formula_notes import read_formula_notes
from sfcdc_assets.lake.store.left_out_objects import left_out_objects
from sfcdc_assets.lake.store.poll_notes import PollNote, read_poll_notes
from sfcdc_assets.lake.store.request_ledger import read_ledger
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.audits import last_audits
from sfcdc_assets.lake.tables.channel_members import filters_of
from sfcdc_assets.lake.tables.consistent_cuts import NAME as CUTS
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.lake.tables.damage import DamageSeen, damage_of_events, damage_of_table, opened
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.raw_events import NAME as RAW_EVENTS_NAME
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import NAME as SCHEMAS
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshot_plan import planned, why_no_copy_began
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.same_organization import owner_of
from sfcdc_assets.polls.polled_objects import is_named
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import all_side_by_side
from sfcdc_assets.runtime.times import seconds_text, utc
from sfcdc_assets.schema_evolution.table_columns import compounds, private_columns
from sfcdc_assets.settings.channel_kinds import POLLED, feeds_entities
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.status.channel_status import channel_status, event_table_status
from sfcdc_assets.status.entity_status import EntityLook, LandedStatus, look_at, size_of, topic_statuses
from sfcdc_assets.status.status_report import (
    AllowanceStatus,
    CutStatus,
    DamageStatus,
    EntityStatus,
    FormulaStatus,
    PrivacyStatus,
    RequestStatus,
    WarehouseStatus,
)

LAYERS = ("current_state", "snapshot", "gap_reconciliation")
"""Their folders name the entities."""


def status_of(warehouse: Warehouse, settings: Settings) -> WarehouseStatus:
    """Return how far the channels and tables are, now by the clock in use.

    Makes no API calls and creates no table. A damaged table is named in `damaged`, with what mends it, and does not
    keep the others from being reported. What it costs follows the number of tables and of their files, not that of
    their rows (`entity_status`); of events that wait to be applied the times are read.
    """
    now_ms = clock.now_ms()
    damaged = DamageSeen()
    raw = damaged.unless(lambda: Table.open(warehouse, RAW_EVENTS_NAME))
    events = RawEvents(raw, warehouse) if raw else None
    changes = settings.feeding_channels
    landed = {channel: events.last_positions(channel) if events else {} for channel in changes}
    of_events = {
        channel: table
        for channel in settings.event_channels
        if (table := damaged.unless(partial(EventTable.open, warehouse, channel))) is not None
    }
    privacy = Privacy.of(settings)
    # Rules are compared with every column of every schema, so schemas are read only where there are rules.
    schemas = damaged.unless(lambda: Schemas(warehouse)) if privacy != NOTHING_PRIVATE else None
    names = sorted({name for layer in LAYERS for name in warehouse.entities(layer)})
    looks = _looks(warehouse, names, LandedStatus(events, landed, now_ms), privacy, schemas)
    sound = {name: look for name, look in looks.items() if not look.damage}
    entities = _entities(warehouse, looks, changes, damaged)
    topics = damaged.unless(lambda: tuple(topic_statuses(warehouse, of_events)))
    channels = tuple(
        channel_status(warehouse, events if feeds_entities(channel) else of_events.get(channel), channel, damaged)
        for channel in settings.channels
    )
    all_read = all(each.read_at for each in channels if each.channel in changes)
    entities = tuple(_with_feed(each, settings, all_read=all_read) for each in entities)
    of_entities = [each for look in looks.values() for each in look.damage]
    damaged.note(*of_entities, damage_of_table(warehouse, None, opened(warehouse, SCHEMAS)))
    wanted = {name: look for name, look in sound.items() if not settings.entities or name in settings.entities}
    cuts, cuts_kept = damaged.unless(lambda: _cuts(warehouse, changes)) or ({}, 0)
    return WarehouseStatus(
        warehouse=warehouse.root,
        organization=owner_of(warehouse),
        channels=channels,
        entities=entities,
        privacy=_privacy(privacy, schemas, sound),
        refused_reads={name: look.refused for name, look in wanted.items() if look.refused is not None},
        quarantined=damaged.unless(lambda: _quarantined(warehouse)) or 0,
        event_tables=tuple(
            event_table_status(channel, of_events.get(channel), damaged) for channel in settings.event_channels
        ),
        topics=topics or (),
        waiting=damaged.unless(lambda: _waiting(warehouse, entities)) or {},
        waiting_because=damaged.unless(lambda: why_no_copy_began(warehouse)),
        formulas=_formulas(warehouse, settings),
        requests=_requests(warehouse),
        cuts=cuts,
        cuts_kept=cuts_kept,
        allowances={
            name: AllowanceStatus(each.maximum, each.remaining, seconds_text(utc(each.asked_at_ms)))
            for name, each in read_allowances(warehouse).items()
        },
        raw_events=size_of(raw) if raw is not None else None,
        at=seconds_text(utc(now_ms)),
        left_out=(damaged.unless(lambda: left_out_objects(warehouse)) or {}) if POLLED in changes else {},
        without_asset=without_asset(warehouse, changes),
        # Last: what was looked at before has noted its damage by now.
        damaged=tuple(DamageStatus(each.table, each.entity, each.file, str(each)) for each in damaged.found),
    )


def _entities(
    warehouse: Warehouse, looks: Mapping[str, EntityLook], channels: Sequence[str], damaged: DamageSeen
) -> tuple[EntityStatus, ...]:
    """Return what was found of each entity, with what the tables of its channel, its audits and its polls say of it."""
    filters = damaged.unless(lambda: {each: filters_of(warehouse, each) for each in channels}) or {}
    audits = damaged.unless(lambda: last_audits(warehouse)) or {}
    polls = read_poll_notes(warehouse) if POLLED in channels else {}
    found = (replace(look.status, damaged=tuple(map(str, look.damage))) for look in looks.values())
    return tuple(_with_poll(_with_filter_and_audit(status, filters, audits), polls) for status in found)


def _cuts(warehouse: Warehouse, channels: Sequence[str]) -> tuple[dict[str, CutStatus], int]:
    """Return the newest cut of each channel, and how many are kept. Reads the newest alone."""
    table = Table.open(warehouse, CUTS)
    found = {channel: latest_cut(warehouse, channel) for channel in channels} if table is not None else {}
    return {
        channel: CutStatus(
            cut.position,
            seconds_text(cut.commit_timestamp) if cut.commit_timestamp else None,
            seconds_text(cut.applied_at) if cut.applied_at else None,
            len(cut.in_trouble),
        )
        for channel, cut in found.items()
        if cut is not None
    }, table.count() if table is not None else 0


def _requests(warehouse: Warehouse) -> dict[str, RequestStatus]:
    ledger, now_ms = read_ledger(warehouse), clock.now_ms()
    found = {}
    for purpose in sorted({*ledger.spent, *ledger.postponed}):
        status, waiting = RequestStatus(ledger.spent_in_a_day(purpose, now_ms)), ledger.postponed.get(purpose)
        if waiting is not None:
            status = replace(
                status,
                waiting=waiting.objects,
                waiting_because=waiting.why.rstrip("."),
                waiting_since=seconds_text(utc(waiting.since_ms)),
            )
        found[purpose] = status
    return found


def _formulas(warehouse: Warehouse, settings: Settings) -> dict[str, FormulaStatus]:
    noted = read_formula_notes(warehouse).entities if settings.formulas else {}
    return {
        entity: FormulaStatus(
            note.formulas,
            seconds_text(utc(note.oldest_ms)) if note.oldest_ms else None,
            note.postponed,
            note.withheld,
            note.error,
        )
        for entity, note in sorted(noted.items())
    }


def _looks(
    warehouse: Warehouse,
    names: Sequence[str],
    landed: LandedStatus,
    privacy: Privacy,
    schemas: Schemas | None,
) -> dict[str, EntityLook]:
    """Return a look at each entity, some at a time. Raises what a look raises."""
    of_events = damage_of_events(warehouse, names)

    def compounds_of(entity: str) -> Compounds:
        return compounds(schemas, entity) if schemas is not None else {}

    def look(name: str) -> EntityLook:
        return look_at(warehouse, name, landed, of_events.get(name), privacy, compounds_of)

    return dict(zip(names, all_side_by_side(look, names, warehouse.looks_at_once), strict=True))


def _waiting(warehouse: Warehouse, entities: Sequence[EntityStatus]) -> Mapping[str, int | None]:
    copied = {
        each.entity for each in entities if each.applied is not None or (each.snapshot and each.snapshot.complete)
    }
    return {entity: records for entity, records in planned(warehouse).items() if entity not in copied}


def _quarantined(warehouse: Warehouse) -> int:
    quarantine = Table.open(warehouse, "quarantine")
    return quarantine.count() if quarantine else 0


def _privacy(privacy: Privacy, schemas: Schemas | None, looks: Mapping[str, EntityLook]) -> PrivacyStatus:
    """Return what the settings hide of each entity, what its tables still have, and the rules that name no column."""
    seen = [entity for entity in looks if schemas is not None and schemas.of_entity(entity)]
    known = {entity: private_columns(schemas, entity, privacy) for entity in seen if schemas is not None}
    return PrivacyStatus(
        {entity: columns.left_out for entity, columns in known.items() if columns.left_out},
        {entity: columns.hashed for entity, columns in known.items() if columns.hashed},
        tuple(privacy.unmatched({entity: each.names for entity, each in known.items()})),
        {
            entity: {table: tuple(str(each) for each in found) for table, found in look.conflicts.items()}
            for entity, look in looks.items()
            if look.conflicts
        },
    )


def _with_filter_and_audit(
    status: EntityStatus, filters: Mapping[str, Mapping[str, str]], audits: Mapping[str, datetime]
) -> EntityStatus:
    """Return the status with the filter of the events that feed the entity, None for none, and when its table was last
    compared whole."""
    audited = audits.get(status.entity)
    return replace(
        status,
        filter_expression=filters.get(status.channel or "", {}).get(status.entity),
        last_audit=seconds_text(audited) if audited else None,
    )


def _with_feed(status: EntityStatus, settings: Settings, *, all_read: bool) -> EntityStatus:
    """Return the status of built tables with why nothing feeds them, where that is so: they are not up to date then,
    whatever has landed. `all_read`: every channel was; one that never was may carry any object."""
    if current_state.LAYER not in status.sizes:
        return status
    entity, channel, why = status.entity, status.channel, None
    if settings.entities and entity not in settings.entities:
        why = "SFCDC_ENTITIES does not name it"
    elif channel == POLLED and is_named(entity, settings.poll_exclude):
        why = "SFCDC_POLL_EXCLUDE names it"
    elif status.new_channel is None and channel in (None, POLLED) and all_read and not is_named(entity, settings.poll):
        why = "no channel of SFCDC_CHANNELS carries it, and SFCDC_POLL does not name it"
    return status if why is None else replace(status, not_fed=why, up_to_date=False)


def _with_poll(status: EntityStatus, polls: Mapping[str, PollNote]) -> EntityStatus:
    """Return the status with how far the polls of the entity have come."""
    note = polls.get(status.entity) if status.channel == POLLED else None
    if note is None:
        return status
    polled_until = seconds_text(utc(note.seen_until_ms)) if note.seen_until_ms else None
    return replace(status, polled_until=polled_until, not_polled=note.error, not_counted=note.sweep_error)
