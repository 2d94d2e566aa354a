"""How fresh the tables are: what a reader of `current_state` sees, against what the org has committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sfcdc_assets_tests.soak.followed_org import Commits

LOOK_SECONDS = 0.5
FRESH_SECONDS = 15.0
"""Tables are fresh while no change waits for longer."""


@dataclass(frozen=True)
class Look:
    """At a moment (epoch s): `waits` is for how long the oldest change has waited that no reader sees yet, in seconds;
    `waits_since` when it was committed, None if none waits. `suspects`: rows whose values are not certain."""

    at: float
    waits: float
    waits_since: float | None
    suspects: int


class _Seen:
    """What a reader saw of one table: the last transaction, by its number in the org's log, and suspect rows."""

    def __init__(self, path: Path, commits: Commits) -> None:
        self._path, self._commits = path, commits
        self._version = -1
        self.number, self.suspects = -1, 0

    @property
    def is_there(self) -> bool:
        return self._version >= 0

    def look(self) -> None:
        """Read the table if its log has another commit."""
        if not (self._path / "_delta_log" / f"{self._version + 1:020}.json").exists():
            return
        table = DeltaTable(str(self._path))
        rows = pa.table(table.scan(columns=["_transaction_key", "_in_doubt"]))
        keys = pc.unique(rows["_transaction_key"]).to_pylist()
        self.number = max((self._commits.numbers.get(key, -1) for key in keys), default=-1)
        self.suspects = pc.sum(rows["_in_doubt"]).as_py() or 0
        self._version = table.version()

    def waits_since(self) -> float | None:
        """When the first transaction was committed that is not seen."""
        moments = self._commits.moments
        return moments[self.number + 1] if self.number + 1 < len(moments) else None


class Freshness:
    """Looks at the tables in a thread, twice a second."""

    def __init__(self, warehouse: Path, commits: Mapping[str, Commits]) -> None:
        self._seen = [_Seen(warehouse / "current_state" / entity, each) for entity, each in commits.items()]
        self._stopping = threading.Event()
        self.looks: list[Look] = []

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While entered."""
        thread = threading.Thread(target=self._run, daemon=True, name="freshness")
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()

    def has_all(self) -> bool:
        """Whether every table is there."""
        return all(seen.is_there for seen in self._seen)

    def last(self) -> Look | None:
        """The last look."""
        return self.looks[-1] if self.looks else None

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for seen in self._seen:
                try:
                    seen.look()
                except (
                    DeltaError,
                    OSError,
                ) as error:  # a file went away meanwhile; the next look opens the table again
                    print(f"a look failed: {error}", flush=True)
            since = min((at for seen in self._seen if (at := seen.waits_since()) is not None), default=None)
            now = time.time()
            suspects = sum(seen.suspects for seen in self._seen)
            self.looks.append(Look(now, 0.0 if since is None else now - since, since, suspects))
