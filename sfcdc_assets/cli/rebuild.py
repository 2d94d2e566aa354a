"""`sfcdc rebuild`: layers made anew from what was landed."""

from __future__ import annotations

from typing import Annotated

import typer

from sfcdc_assets.cli.stopping import stops_at_once
from sfcdc_assets.config import load_settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.rebuild import remove_layers


@stops_at_once
def rebuild(
    entity: Annotated[list[str], typer.Option(help="The entity to rebuild; may be given several times.")],
    from_org: Annotated[
        bool, typer.Option("--from-org", help="Remove its snapshots too and read the entity from the org anew.")
    ] = False,
) -> None:
    """Remove an entity's layers and build them anew from raw_events and all that was read of the org: the same rows.

    Asks the org for nothing but what is new in its stream, or, with --from-org, for a new snapshot. A rebuild that is
    interrupted is finished by the next `sfcdc sync`.
    """
    from sfcdc_assets.cli.ticks import dagster_instance, sync_channels  # noqa: PLC0415 - Dagster is slow to load

    warehouse = Warehouse(load_settings().warehouse)
    warehouse.check_writable()
    known = warehouse.entities("snapshot")
    missing = [name for name in entity if name not in known]
    if missing:
        raise SettingsError(
            "--entity",
            f"{', '.join(missing)} has no snapshot to rebuild from",
            f"Entities that have: {', '.join(known)}",
        )
    for name in entity:
        for table in remove_layers(warehouse, name, and_snapshots=from_org):
            typer.echo(f"{table} removed.", err=True)
    with dagster_instance() as instance:
        sync_channels(instance, until_caught_up=True, tell=lambda line: typer.echo(line, err=True))
