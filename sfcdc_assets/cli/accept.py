"""`sfcdc accept`: records that vanished from the org are really gone."""

from __future__ import annotations

from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.lake.tables import gap_reconciliation, snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.wanted_entities import entity_named
from sfcdc_assets.org_reads.vanished import accept as accept_entity
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.settings import load_settings


def accept(
    entity: Annotated[
        list[str], typer.Option(metavar="ENTITY", help="Accept the read of this entity; may be given several times.")
    ],
) -> None:
    """Accept a read of the org that was held back because it would delete too many rows.

    `sfcdc status` names such reads. Look first: with a lost permission the records are still there, and giving it back
    is the remedy. What is accepted here the next run applies. Makes no API calls. Exit code 1 where nothing waits.
    """
    warehouse = Warehouse(load_settings().warehouse)
    known = {*warehouse.entities(snapshots.LAYER), *warehouse.entities(gap_reconciliation.LAYER)}
    for name in [entity_named(each, known, "no entity of this name was copied") for each in entity]:
        done = accept_entity(warehouse, name, clock.now_ms())
        if done.snapshot is not None:
            say(f"{name}: snapshot {done.snapshot} is accepted; the next run applies it.")
        if done.records:
            say(f"{name}: the next run reads {counted(done.records, 'record')} again, and deletes what is gone.")
