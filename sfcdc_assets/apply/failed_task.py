"""What fails in a Spark task comes back as text, with a worker's traceback. What it says of files is quoted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sfcdc_assets.apply.spark_job import TaskFailed
from sfcdc_assets.lake.errors import TableNotWritten
from sfcdc_assets.lake.store.object_stores import refusal_of
from sfcdc_assets.lake.store.store_errors import no_room
from sfcdc_assets.lake.tables.current_state import name_of
from sfcdc_assets.lake.tables.damage import damage_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError

_OF_FILES = ("parquet", "FileNotFoundError", "ArrowInvalid", "OSError", "DeltaError")


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
