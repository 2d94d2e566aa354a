"""Entities of which a read was refused or is not believed, from their ledgers alone; and how that is noted."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.gap_reconciliation import LAYER, Ledger, open_suspects
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import LAYER as SNAPSHOTS
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.timeline.suspect import Reason


class ReadsRefused(SfcdcError):
    """Reads of the org are not in the tables, and a person has to see to it."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        self.refused = refused
        super().__init__("Not all is applied. " + " ".join(sentences(refused)))


def refused_reads(warehouse: Warehouse, wanted: Collection[str] = ()) -> dict[str, str]:
    """Entity -> why, of those that have a ledger; of the wanted ones, if there are any."""
    looked_at = [entity for entity in warehouse.entities(LAYER) if not wanted or entity in wanted]
    found = of_readable(lambda entity: refusal_in(Ledger.open(warehouse, entity)), looked_at, warehouse.looks_at_once)
    return {entity: why for entity, why in found.items() if why is not None}


def refusal_in(ledger: Ledger | None) -> str | None:
    """Return why the last read of an entity was refused or is not believed; None where none was."""
    suspects = ledger.open_suspects(of_the_entity=True) if ledger else []
    refusals = [suspect for suspect in suspects if suspect.refuses_a_read]
    return (refusals[-1].detail or "") if refusals else None


@retry_on_conflict
def refuse_entity(
    warehouse: Warehouse, entity: str, reason: Reason, channel: str, position: int, description: str, now_ms: int
) -> None:
    """Note that the entity was not read, or what was read is not believed. The next attempt comes after a pause."""
    Ledger.open_or_create(warehouse, entity).refuse_read(reason, channel, position, description, now_ms, whole=True)


def refuse_now(warehouse: Warehouse, entity: str, reason: Reason, channel: str, why: str) -> None:
    """Note that the org has just refused to have the entity read, at what has landed of its channel."""
    position = RawEvents.open(warehouse).last_position(channel)
    refuse_entity(warehouse, entity, reason, channel, position, why, clock.now_ms())


@retry_on_conflict
def end_refusal(warehouse: Warehouse, entity: str, reason: Reason, position: int, now_ms: int) -> None:
    """Note that the entity is not refused for this reason any more."""
    ledger = Ledger.open(warehouse, entity)
    if ledger is not None:
        ledger.end_refusal(reason, position, now_ms)


def end_refusals_of_others(warehouse: Warehouse, channel: str, entities: Collection[str], now_ms: int) -> None:
    """Note that what was refused on a channel is not wanted any more: entities that were never copied, and that are
    none of the channel's by now."""
    for entity in set(warehouse.entities(LAYER)) - set(warehouse.entities(SNAPSHOTS)) - set(entities):
        for suspect in open_suspects(warehouse, entity, of_the_entity=True):
            if suspect.refuses_a_read and suspect.channel == channel:
                end_refusal(warehouse, entity, suspect.reason, suspect.opened_position, now_ms)


def sentences(refused: Mapping[str, str]) -> list[str]:
    """Each with the entity in front."""
    return [why if why.startswith(f"{entity}:") else f"{entity}: {why}" for entity, why in refused.items()]
