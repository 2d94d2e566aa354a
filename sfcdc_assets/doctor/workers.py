"""The workers of a cluster: they have this package, and reach the warehouse, as a run would find at its start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark.cluster import spark_address

WORKERS = "Spark's workers"
ANSWER_SECONDS = 2.0
PATIENCE_SECONDS = 120.0
"""How long a cluster may take to give the session executors: it queues a session that it has no room for, for ever."""


def workers(settings: Settings, ask: Callable[[Settings], object], seconds: float = PATIENCE_SECONDS) -> Finding:
    """`ask` starts a session and asks its workers; it raises what a run would fail with."""
    where = spark_address(settings)
    if (silent := silent_master(settings.spark_master)) is not None and not settings.spark_remote:
        fix = "Start the master, or correct SFCDC_SPARK_MASTER."
        return failed(WORKERS, f"No master of {where} takes a connection ({silent}).", fix)
    asked: list[object] = []
    thread = threading.Thread(target=lambda: asked.append(outcome_of(ask, settings)), daemon=True)
    thread.start()
    thread.join(seconds)
    if not asked:
        fix = "Free some of its cores, start workers, or lower what the session asks for (SFCDC_SPARK_CONF_*)."
        return failed(WORKERS, f"Spark at {where} had no worker for the session within {seconds:.0f} s.", fix)
    if isinstance(asked[0], SfcdcError):
        return of_error(WORKERS, asked[0])
    if isinstance(asked[0], Exception):
        reason = (str(asked[0]).strip().splitlines() or [type(asked[0]).__name__])[0].rstrip(".")
        return failed(WORKERS, f"Spark at {where} gives no session: {reason}.", "Look at the log of its master.")
    return ok(WORKERS, f"those of {where} have this release and reach the warehouse")


def silent_master(master: str) -> str | None:
    """Return why no master of a standalone cluster (`spark://one:7077,two:7077`) takes a connection; None where one
    does, and for other clusters. Spark itself would try for a minute, and end the session with another error."""
    if not master.startswith("spark://"):
        return None
    said = ""
    for each in master.removeprefix("spark://").split(","):
        at = urlsplit(f"spark://{each}")
        try:
            with socket.create_connection((at.hostname or "", at.port or 7077), ANSWER_SECONDS):
                return None
        except (OSError, ValueError) as error:
            said = str(error)
    return said
