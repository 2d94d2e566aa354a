"""The context of a run, as tests make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.settings.settings import load_settings


def run_on(
    warehouse: Warehouse, org: Any = None, spark: Callable[[], Any] = lambda: None, **settings: Any
) -> OrgRunContext:
    """A run over a warehouse: with the settings of the environment, but for those that are given by their names.

    `org` may be left out where nothing is asked of one, and `spark` where batches are applied in this process.
    """
    changed = load_settings().model_copy(update=settings)
    return OrgRunContext(warehouse=warehouse, settings=changed, run_id="a test", spark=spark, org=org)
