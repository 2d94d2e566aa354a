"""Whether Spark's tasks run on other machines, and where."""

from __future__ import annotations

from urllib.parse import urlsplit

from sfcdc_assets.settings.settings import Settings


def is_cluster(settings: Settings) -> bool:
    """Return whether tasks run in processes that this one does not start."""
    return bool(settings.spark_remote) or not settings.spark_master.startswith("local")


def spark_address(settings: Settings) -> str:
    """Say where Spark is, for messages: a URL of Spark Connect may have a token, `sc://host:443/;token=...`."""
    if settings.spark_remote is None:
        return settings.spark_master
    at = urlsplit(settings.spark_remote.get_secret_value())
    return f"{at.scheme}://{at.netloc.rpartition('@')[2]}"
