"""`sfcdc rebuild`: layers made anew from what was landed, or from the org."""

from __future__ import annotations

from typing import Annotated

import typer

from sfcdc_assets import clock
from sfcdc_assets.config import Settings, load_settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.org import connect
from sfcdc_assets.pipeline.organization import accept_organization, check_accepted, claim_warehouse
from sfcdc_assets.pipeline.rebuild import remove_layers
from sfcdc_assets.pipeline.wanted_entities import check_wanted_entities


def rebuild(
    entity: Annotated[list[str] | None, typer.Option(help="The entity to rebuild; may be given several times.")] = None,
    from_org: Annotated[
        bool, typer.Option("--from-org", help="Remove its snapshots too and read the entity from the org anew.")
    ] = False,
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept-organization",
            metavar="00D...",
            help="With --from-org: give the warehouse to this organization, the one that the settings lead to. Every "
            "entity is read again, and rows that it does not have end as deleted.",
        ),
    ] = None,
) -> None:
    """Remove an entity's layers and build them anew from raw_events and all that was read of the org: the same rows.

    Asks the org for nothing but what is new in its stream, or, with --from-org, for a new snapshot. A rebuild that is
    interrupted is finished by the next `sfcdc sync`.
    """
    from sfcdc_assets.cli.ticks import dagster_instance, sync_channels  # noqa: PLC0415 - Dagster is slow to load

    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    entities = entity or []
    if not entities and accept is None:
        raise SettingsError("--entity", "is not given", "Name the entities to rebuild")
    if accept is not None and not from_org:
        raise SettingsError("--accept-organization", "goes with --from-org only", "Add it: every entity is read again")
    known = warehouse.entities("snapshot")
    missing = [name for name in entities if name not in known]
    if missing:
        raise SettingsError(
            "--entity",
            f"{', '.join(missing)} has no snapshot to rebuild from",
            f"Entities that have: {', '.join(known)}",
        )
    warehouse.check_writable()
    _claim(warehouse, settings, accept)
    for name in entities:
        for table in remove_layers(warehouse, name, and_snapshots=from_org):
            typer.echo(f"{table} removed.", err=True)
    with dagster_instance() as instance:
        sync_channels(instance, until_caught_up=True, tell=lambda line: typer.echo(line, err=True))


def _claim(warehouse: Warehouse, settings: Settings, accept: str | None) -> None:
    """Before anything is removed: the warehouse is this org's, or becomes it."""
    now_ms = clock.now_ms()
    with connect(settings) as org:
        organization_id = org.session.organization_id
        if accept is None:
            claim_warehouse(warehouse, organization_id, now_ms)
            check_wanted_entities(warehouse, settings, org)
            return
        check_accepted(accept, organization_id)
        if accept_organization(warehouse, organization_id, settings.channels, now_ms):
            typer.echo(
                f"The warehouse {warehouse.root} belongs to the organization {organization_id} from now on; every "
                "entity is read again.",
                err=True,
            )
