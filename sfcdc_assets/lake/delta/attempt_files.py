"""The files that an attempt to apply an entity writes before any commit names them.

Their names begin with the attempt's token. So what is left of an attempt that failed can be told from files of others
at work, and is deleted: a full disk would otherwise be fuller with each retry. On a disk the token also stands in a
file that is locked while the attempt lasts: when its process was killed, the next attempt finds it and deletes what it
left. In an object store, which has no such lock, `maintain` deletes that after a week.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

from pyarrow import fs

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.store.store_errors import FROM_STORE
from sfcdc_assets.lake.tables import current_state, history, text_fields
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError

MARKER = "_attempt"
"""In the folder of `current_state`; other clients ignore names that begin so."""
_NONE = "-" * 12


@dataclass
class AttemptFiles:
    """Those of one attempt, from before its first file is written until it has ended."""

    warehouse: Warehouse
    entity: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex[: len(_NONE)])
    _marker: int | None = None

    @classmethod
    def begin(cls, warehouse: Warehouse, entity: str) -> AttemptFiles:
        """Begin an attempt; what one left whose process was killed is deleted. The entity has its tables."""
        begun = cls(warehouse, entity)
        if warehouse.is_local:
            with suppress(OSError):  # on a full disk: it is an aid and stops nothing
                begun._mark()
        return begun

    def ended(self) -> None:
        """All that counts is committed."""
        if self._marker is not None:
            with suppress(OSError):
                os.pwrite(self._marker, _NONE.encode(), 0)
        self._let_go()

    def failed(self, error: BaseException, *, is_written: bool) -> None:
        """Delete what was written and no commit names. `is_written`: the tasks had ended, and commits were tried. Of
        one that a store did not answer it is not known whether it will be there."""
        if self.warehouse.is_local or not is_written or isinstance(error, ConcurrentCommit):
            _delete_what_is_left(self.warehouse, self.entity, self.token)
        if is_written:
            self.ended()
        self._let_go()  # tasks of a job that was lost may still be writing: the next attempt looks again

    def _mark(self) -> None:
        path = f"{self.warehouse.uri(current_state.name_of(self.entity))}/{MARKER}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)  # another attempt is at work
            return
        self._marker = file
        before = os.pread(file, len(_NONE), 0).decode("ascii", "replace")
        if before and before != _NONE:
            _delete_what_is_left(self.warehouse, self.entity, before)
        os.pwrite(file, self.token.encode(), 0)

    def _let_go(self) -> None:
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None

    def __del__(self) -> None:
        self._let_go()


def _delete_what_is_left(warehouse: Warehouse, entity: str, token: str) -> None:
    for layer in (current_state, history, text_fields):
        with suppress(SfcdcError, *FROM_STORE):
            _delete(warehouse, layer.name_of(entity), token)


def _delete(warehouse: Warehouse, name: str, token: str) -> None:
    filesystem = warehouse.filesystem(name)
    present = filesystem.get_file_info(fs.FileSelector("", allow_not_found=True))
    written = {info.base_name for info in present if info.base_name.startswith(f"{token}-")}
    table = Table.open(warehouse, name) if written else None
    if table is not None:
        for path in written & table.unnamed():
            filesystem.delete_file(path)
