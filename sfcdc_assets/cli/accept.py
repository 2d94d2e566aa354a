"""`sfcdc accept`: records that vanished from the org are really gone."""

from __future__ import annotations

from typing import Annotated

import typer

from sfcdc_assets import clock
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.org_reads.accept_vanished import accept as accept_entity


def accept(
    entity: Annotated[
        list[str], typer.Option(metavar="ENTITY", help="Accept the read of this entity; may be given several times.")
    ],
) -> None:
    """Apply a read of the org that was not believed, because too many rows would be deleted by it.

    `sfcdc status` names such reads. Look first: with a lost permission the records are still there, and giving it back
    is the remedy. What is accepted here the next run applies. Makes no API calls. Exit code 1 where nothing waits.
    """
    warehouse = Warehouse(load_settings().warehouse)
    for name in entity:
        done = accept_entity(warehouse, name, clock.now_ms())
        if done.snapshot is not None:
            typer.echo(f"{name}: snapshot {done.snapshot} is accepted; the next run applies it.")
        if done.records:
            typer.echo(
                f"{name}: {done.records:,} records are read again by the next run, and deleted if they are gone."
            )
