"""Entities of which a read was refused or is not believed, from their ledgers alone; and how that is noted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.gap_reconciliation import LAYER, Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.timeline.suspect import Reason


class ReadsRefused(SfcdcError):
    """Reads of the org are not in the tables, and a person has to see to it."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        self.refused = refused
        super().__init__("Not all is applied. " + " ".join(sentences(refused)))


def refused_reads(warehouse: Warehouse, entities: Iterable[str] | None = None) -> dict[str, str]:
    """Entity -> why, of those that have a ledger."""
    looked_at = warehouse.entities(LAYER) if entities is None else list(entities)
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


@retry_on_conflict
def end_refusal(warehouse: Warehouse, entity: str, reason: Reason, position: int, now_ms: int) -> None:
    """Note that the entity is not refused for this reason any more."""
    ledger = Ledger.open(warehouse, entity)
    if ledger is not None:
        ledger.end_refusal(reason, position, now_ms)


def sentences(refused: Mapping[str, str]) -> list[str]:
    """Each with the entity in front."""
    return [why if why.startswith(f"{entity}:") else f"{entity}: {why}" for entity, why in refused.items()]
