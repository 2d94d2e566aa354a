"""The org as a Dagster resource."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.connect_for import connect_for
from sfcdc_assets.pipeline.org_connection import OrgConnection


class OrgResource(dg.ConfigurableResource):
    """The org of the SFCDC_* settings. It has no configuration of its own, so no secret can be shown in the UI."""

    @contextmanager
    def connect(self, warehouse: Warehouse) -> Iterator[OrgConnection]:
        """An open session for work on the warehouse, closed at the end. Raises `WrongOrganization`."""
        with connect_for(warehouse, load_settings()) as org:
            yield org
