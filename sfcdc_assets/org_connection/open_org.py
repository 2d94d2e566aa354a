"""The org of the settings, opened for work on a warehouse.

Apart from what says whose copy a warehouse is: who only looks at tables needs neither REST nor gRPC, which take longer
to import than all else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sfcdc_assets.lake.store.allowance_notes import note_allowances
from sfcdc_assets.lake.store.left_out_objects import refused_objects
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.same_organization import claim_warehouse
from sfcdc_assets.org_connection.wanted_entities import check_wanted_entities
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings


@contextmanager
def connect_for(warehouse: Warehouse, settings: Settings) -> Iterator[OrgConnection]:
    """Open the org of the settings for work on this warehouse. Raises `WrongOrganization` and `UnknownWantedEntity`
    before anything is written, and what `connect` raises."""
    with connect(
        settings, on_allowances=lambda limits: note_allowances(warehouse, limits, clock.now_ms())
    ) as connected:
        org = knowing_refusals(connected, warehouse)
        claim_warehouse(warehouse, org.session.organization_id, clock.now_ms())
        check_wanted_entities(warehouse, settings, org)
        yield org


def knowing_refusals(org: OrgConnection, warehouse: Warehouse) -> OrgConnection:
    """Return the org that leaves out of what patterns take what has refused a copy into this warehouse."""
    return replace(org, refused_objects=lambda: refused_objects(warehouse, clock.now_ms()))
