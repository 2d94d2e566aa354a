"""Whether Spark's tasks run on other machines."""

from __future__ import annotations

from sfcdc_assets.config import Settings


def is_cluster(settings: Settings) -> bool:
    """Whether tasks run in processes that this one does not start."""
    return bool(settings.spark_remote) or not settings.spark_master.startswith("local")
