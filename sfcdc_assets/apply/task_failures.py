"""What fails in Spark comes back as an error of the entity: a task's traceback, a file that is damaged or not taken by
the store, workers that were lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sfcdc_assets.lake.errors import TableNotWritten
from sfcdc_assets.lake.store.object_stores import refusal_of
from sfcdc_assets.lake.store.store_errors import no_room
from sfcdc_assets.lake.tables.current_state import name_of
from sfcdc_assets.lake.tables.damage import damage_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError

_LOST = re.compile(
    r"ExecutorLostFailure|Python worker exited unexpectedly|OutOfMemoryError|memory limits|OOMKilled|MemoryError"
)
_REASON = re.compile(r"Reason:\s+[^\n]{1,200}|Python worker exited unexpectedly|\w*OutOfMemoryError[^\n]{0,100}")
_OF_FILES = ("parquet", "FileNotFoundError", "ArrowInvalid", "OSError", "DeltaError")
"""What a traceback that has to do with files names."""


class TaskFailed(SfcdcError):
    """A task could not do its part for an entity. `trace`: the worker's traceback."""

    def __init__(self, entity: str, trace: str) -> None:
        self.entity = entity
        self.trace = trace
        super().__init__(trace.strip().splitlines()[-1])


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


@contextmanager
def report_file_damage(warehouse: Warehouse, entity: str) -> Iterator[None]:
    """Raise `StoreRefused` or `StoreUnavailable` where the store did not do what a task asked, `TableNotWritten` where
    a task found no room for its file, and `TableDamaged` where what fails has to do with files and one of the entity's
    is damaged; anything else as it is."""
    try:
        yield
    except Exception as error:
        if isinstance(error, SfcdcError) and not isinstance(error, TaskFailed):
            raise
        text = error.trace if isinstance(error, TaskFailed) else str(error)
        if refusal := refusal_of(warehouse.root, text):
            raise refusal from None
        if (full := no_room(text)) is not None:
            raise TableNotWritten(name_of(entity), {}, warehouse.root, full) from error
        if any(word in text for word in _OF_FILES):
            for damage in damage_of(warehouse, entity, thorough=True):
                raise damage from error
        raise
