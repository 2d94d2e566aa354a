"""The org of the settings, opened for work on a warehouse.

Apart from what says whose copy a warehouse is: who only looks at tables needs neither REST nor gRPC, which take longer
to import than all else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sfcdc_assets.lake.store.allowance_notes import note_allowances
from sfcdc_assets.lake.store.left_out_objects import refused_objects
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.same_organization import claim_warehouse, owner_of
from sfcdc_assets.org_connection.wanted_entities import check_wanted_entities
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import OrgUnavailable, OrgUnreachable
from sfcdc_assets.salesforce.rest_deadline import unanswered_time
from sfcdc_assets.settings.settings import Settings

log = logging.getLogger(__name__)


@contextmanager
def open_org(warehouse: Warehouse, settings: Settings) -> Iterator[OrgConnection]:
    """Open the org of the settings for work on this warehouse. Raises `WrongOrganization` and `UnknownWantedEntity`
    before anything is written, and what `connect` raises.

    Work that is in a hurry (`unanswered_at_most`) goes on without the answers of an org that gives none, where the
    warehouse is known to be an org's copy: what has landed in it is that org's. A login that is answered later is held
    against it before anything is asked.
    """
    with connect(
        settings, on_allowances=lambda limits: note_allowances(warehouse, limits, clock.now_ms())
    ) as connected:
        org = knowing_refusals(connected, warehouse)
        claim_warehouse(warehouse, _organization_of(org, warehouse), clock.now_ms())
        try:
            check_wanted_entities(warehouse, settings, org)
        except (OrgUnavailable, OrgUnreachable) as error:
            if unanswered_time() is None or not warehouse.entities("snapshot"):
                raise
            log.warning("Whether the org has all of SFCDC_ENTITIES is not known: %s", error)
        yield org


def _organization_of(org: OrgConnection, warehouse: Warehouse) -> str:
    """Return whose the session is, or will have to be."""
    try:
        return org.session.organization_id
    except (OrgUnavailable, OrgUnreachable) as error:
        owner = owner_of(warehouse)
        if owner is None or unanswered_time() is None:
            raise
        log.warning("What has landed of the organization %s is worked on without its answers: %s", owner, error)
        org.session.take_for_granted(owner)
        return owner


def knowing_refusals(org: OrgConnection, warehouse: Warehouse) -> OrgConnection:
    """Return the org that leaves out of what patterns take what has refused a copy into this warehouse."""
    return replace(org, refused_objects=lambda: refused_objects(warehouse, clock.now_ms()))
