"""A job of Spark that was lost with the processes that did it, in most cases for want of memory."""

from __future__ import annotations

import re

from sfcdc_assets.runtime.errors import SfcdcError

_LOST = re.compile(
    r"ExecutorLostFailure|Python worker exited unexpectedly|OutOfMemoryError|memory limits|OOMKilled|MemoryError"
)
_REASON = re.compile(r"Reason:\s+[^\n]{1,200}|Python worker exited unexpectedly|\w*OutOfMemoryError[^\n]{0,100}")


class WorkersLost(SfcdcError):
    """Spark gave up an entity's batch, because the processes that worked on it ended again and again. Nothing of it was
    committed."""

    def __init__(self, entity: str, reason: str) -> None:
        self.entity = entity
        self.reason = reason
        super().__init__(
            f"{entity}: Spark gave up its batch, because workers ended while they were at it ({reason}). Mostly that "
            "is too little memory: on a cluster raise SFCDC_SPARK_CONF_spark.executor.memoryOverhead or lower "
            "SFCDC_SPARK_CONF_spark.executor.cores; on one machine give SFCDC_SPARK_MASTER fewer cores, local[1] "
            "(docs/scaling.md). Nothing of the batch was committed; the next run does it again."
        )


def lost_workers(entity: str, error: Exception) -> WorkersLost | None:
    """Return what to report in the place of Spark's error, if that says that workers were lost."""
    text = str(error)
    if _LOST.search(text) is None:
        return None
    found = _REASON.search(text)
    return WorkersLost(entity, found[0].removeprefix("Reason:").strip().rstrip(".") if found else "out of memory")
