"""Whose warehouse it is, and whose login."""

from __future__ import annotations

from sfcdc_assets.doctor.finding import Finding, of_error, ok
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.same_organization import check_owner
from sfcdc_assets.runtime.errors import SfcdcError

ORGANIZATION = "organization"


def organization(warehouse: Warehouse, org: OrgConnection) -> Finding:
    """Check that the warehouse belongs to the org of the settings, or to nobody yet. Writes nothing."""
    try:
        owner = check_owner(warehouse, org.session.organization_id)
    except SfcdcError as error:
        return of_error(ORGANIZATION, error)
    if owner is None:
        return ok(ORGANIZATION, f"{org.session.organization_id}; the warehouse belongs to nobody yet")
    return ok(ORGANIZATION, f"the warehouse is a copy of {owner}, and the settings lead to it")
