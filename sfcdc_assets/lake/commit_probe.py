"""Whether a store refuses all but one of the commits that are made of one version of a table.

All that no event is lost by stands on this. deltalake makes such commits by a conditional write, by a lock, or, where
settings say so, by neither: so commits are made, not requests of the store's. A store that lets them replace each other
is found as soon as two of them meet, so writers try it at the same moment, and more than once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pyarrow as pa

from sfcdc_assets.lake.errors import CommitsNotAtomic, ConcurrentCommit
from sfcdc_assets.lake.probe import probe_of
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

WRITERS, ROUNDS = 8, 4
_SCHEMA = pa.schema([("number", pa.int64())])


def commits_accepted(probe: Warehouse) -> int:
    """The most commits of one version that were accepted, in any round: 1 where no commit can be lost. `probe`: a
    warehouse that is removed afterwards."""
    Table.open_or_create(probe, "commits", _SCHEMA)
    return max(_commits_at_once(probe, number) for number in range(1, ROUNDS + 1))


def check_commits(warehouse: Warehouse) -> None:
    """Raise `CommitsNotAtomic` where commits would be lost, before there is a table of the warehouse."""
    with probe_of(warehouse, f"probe-{uuid4().hex}") as probe:
        accepted = commits_accepted(probe)
    if accepted != 1:
        raise CommitsNotAtomic(warehouse.root, accepted, WRITERS)


def _commits_at_once(probe: Warehouse, number: int) -> int:
    """How many were accepted."""
    tables = [Table.open_or_create(probe, "commits", _SCHEMA) for _ in range(WRITERS)]
    together = Barrier(WRITERS)
    row = pa.Table.from_pylist([{"number": number}], schema=_SCHEMA)

    def is_accepted(table: Table) -> bool:
        together.wait()
        try:
            table.append(row, {"probe": number}, {})
        except ConcurrentCommit:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(is_accepted, tables))
