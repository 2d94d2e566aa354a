"""The warehouse as a Dagster resource."""

import dagster as dg

from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse


class LakeResource(dg.ConfigurableResource):
    """The tables below SFCDC_WAREHOUSE. Settings are read when a run or tick begins, never at import."""

    def warehouse(self) -> Warehouse:
        """The warehouse; raises `WarehouseNotWritable` before anything else is done."""
        warehouse = Warehouse(load_settings().warehouse)
        warehouse.check_writable()
        return warehouse
