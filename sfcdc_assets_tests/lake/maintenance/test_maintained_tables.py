"""No table is left out of maintenance: it would grow until somebody wonders why runs take so long."""

from __future__ import annotations

import importlib
import pkgutil

from sfcdc_assets.lake import tables
from sfcdc_assets.lake.delta import rebuild_claim
from sfcdc_assets.lake.maintenance.maintained_tables import LAYERS, SINGLE
from sfcdc_assets.lake.tables import raw_events


def test_every_table_that_the_package_names_is_maintained() -> None:
    modules = [
        importlib.import_module(f"{tables.__name__}.{each.name}") for each in pkgutil.iter_modules(tables.__path__)
    ]
    named = {
        str(getattr(each, kind))
        for each in [*modules, rebuild_claim]
        for kind in ("NAME", "LAYER")
        if hasattr(each, kind)
    }
    assert len(named) > 15
    assert named - {raw_events.NAME} <= {*SINGLE, *LAYERS}
