"""The Spark that a code location of Dagster keeps for its runs, where the settings name none.

Each run is a process, and without this each would start a Java process: most of what a change then waits for. So the
process that evaluates the sensors has `sfcdc spark` as a child, found by its file as any other standing Spark. It is
started by a tick and not by loading the definitions, which runs and commands do as well. The sensor itself holds
nothing of it: no session, no channel of gRPC, only the child's process id.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from sfcdc_assets.settings.given_settings import GivenSettings
from sfcdc_assets.settings.setting_values import PREFIX
from sfcdc_assets.settings.settings import SPARK_CONF, Settings
from sfcdc_assets.spark import standing
from sfcdc_assets.spark.process import SparkProcess


class OwnStandingSpark:
    """Call `look` with each tick, and `end` at the end of the process; killed, the child sees that itself."""

    def __init__(self, process: SparkProcess | None = None) -> None:
        """`process`: a test's."""
        self._lock = threading.Lock()
        self._process = process
        self._has_ended = False

    def look(self, settings: Settings) -> None:
        """Start it if it is wanted and nobody's is there. Returns at once; a tick never waits for Spark."""
        if not is_wanted(settings) or not self._lock.acquire(blocking=False):
            return  # another channel's tick is at it
        try:
            if self._has_ended or (self._process is not None and self._process.is_running):
                return
            found = standing.read(settings.spark_standing)
            if found is not None and found.is_alive():
                return  # a person's, or that of another code location in this folder
            if self._process is None:
                self._process = SparkProcess({**os.environ, **_of_given(settings)}, Path.cwd())
            self._process.look()
        finally:
            self._lock.release()

    def end(self) -> None:
        """End what was started; nothing is started any more."""
        with self._lock:
            self._has_ended = True
            if self._process is not None:
                self._process.end()


def _of_given(settings: Settings) -> dict[str, str]:
    """Return as variables what the process that starts it finds nowhere else: settings that a program gave."""
    if not isinstance(settings, GivenSettings):
        return {}
    options = {f"{SPARK_CONF}{name}": value for name, value in settings.spark_conf.items()}
    return {f"{PREFIX}SPARK_MASTER": settings.spark_master, **options}


def is_wanted(settings: Settings) -> bool:
    """Return whether runs would start a Java process on this machine, and no setting says who keeps one for them."""
    return (
        settings.spark_kept
        and not settings.spark_remote
        and "spark_standing" not in settings.model_fields_set
        and settings.spark_master.startswith("local")
    )
