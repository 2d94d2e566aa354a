"""The first reading of a sync, while Dagster is being imported, which takes as long as the stream is waited for."""

from __future__ import annotations

import importlib
import threading
from functools import partial

from sfcdc_assets.config import Settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.connect_for import connect_for
from sfcdc_assets.pipeline.landing.patience import Patience
from sfcdc_assets.sensors.open_channels import OpenChannels
from sfcdc_assets.spark.early import EarlySpark
from sfcdc_assets.spark.java import check_java


def check_ready(settings: Settings) -> None:
    """Raise what would stop the work later: `JavaMissing`, `WarehouseNotWritable`."""
    if settings.change_channels and not settings.spark_remote:
        check_java()
    Warehouse(settings.warehouse).check_writable()


def read_first(channels: OpenChannels, settings: Settings, patience: Patience, early: EarlySpark) -> None:
    """Land the first channel of change events; Spark is started when events come, and Dagster is loaded beside it. The
    other channels wait for their turn, as they do under `sync_channels`. Raises as `check_ready` and a tick do."""
    check_ready(settings)
    if not settings.change_channels:
        return
    warehouse = Warehouse(settings.warehouse)
    first = channels.of(settings.change_channels[0], warehouse, settings, partial(connect_for, warehouse, settings))
    threading.Thread(target=_load, name="loading Dagster", daemon=True).start()
    first.reader.on_events = early.start
    first.land_ahead(patience)


def _load() -> None:
    importlib.import_module("sfcdc_assets.cli.ticks")
