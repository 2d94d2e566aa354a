"""Which commit landed an event, from the log of its table: log cleanup removes commits after 30 days, so it may not be
known any more (docs/storage-layout.md, "Commit metadata and log cleanup")."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyarrow import fs

from sfcdc_assets.lake.delta.commit_protocol import RUN_ID
from sfcdc_assets.lake.delta.transaction_versions import commit_file
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc

_COMMIT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class LandingCommit:
    """A commit that landed the events of a channel at the positions from `first` to `last`; `run_id`: of the run of
    Dagster that did it, None where it was a sensor's tick or a command."""

    version: int
    committed_at: datetime
    first: int
    last: int
    run_id: str | None


@dataclass(frozen=True)
class _Entry:
    position: int
    committed_at: datetime
    run_id: str | None


def landing_commits(
    warehouse: Warehouse, name: str, channel: str, positions: Iterable[int]
) -> dict[int, LandingCommit]:
    """Position -> the commit of the table `name` that landed the channel's event there; those that are not in the log
    any more are left out. A search among the commits by halves: it reads some for each position."""
    log = _Log(warehouse.filesystem(name), channel)
    found = {position: log.landed(position) for position in set(positions)}
    return {position: commit for position, commit in found.items() if commit is not None}


class _Log:
    """The commits that a table's log has, the oldest first. A channel's position only grows, in some of them."""

    def __init__(self, store: fs.FileSystem, channel: str) -> None:
        self._store = store
        self._channel = channel
        listed = store.get_file_info(fs.FileSelector("_delta_log", allow_not_found=True))
        self._versions = sorted(int(named[1]) for each in listed if (named := _COMMIT.fullmatch(each.base_name)))
        self._read: dict[int, _Entry | None] = {}

    def landed(self, position: int) -> LandingCommit | None:
        low, high = 0, len(self._versions)
        while low < high:  # the first commit that has the channel at the position, or beyond
            middle = (low + high) // 2
            if (self._position(middle) or 0) >= position:
                high = middle
            else:
                low = middle + 1
        entry = self._entry(low) if low < len(self._versions) else None
        before = None if entry is None else self._position(low - 1)
        if entry is None or before is None:
            return None  # never landed, or by a commit that is gone
        return LandingCommit(self._versions[low], entry.committed_at, before + 1, entry.position, entry.run_id)

    def _position(self, place: int) -> int | None:
        """Return where the channel was after a commit; None where that was said by a commit that is gone."""
        while place >= 0:
            entry = self._entry(place)
            if entry is not None:
                return entry.position
            place -= 1
        return 0 if self._versions[0] == 0 else None

    def _entry(self, place: int) -> _Entry | None:
        version = self._versions[place]
        if version not in self._read:
            with self._store.open_input_file(commit_file(version)) as file:
                self._read[version] = _entry_of(bytes(file.read()), self._channel)
        return self._read[version]


def _entry_of(text: bytes, channel: str) -> _Entry | None:
    """Return what a commit says of the channel; None where it says nothing."""
    position, info = None, dict[str, Any]()
    for line in text.splitlines():
        if b'"txn"' in line:
            noted = json.loads(line).get("txn") or {}
            position = noted["version"] if noted.get("appId") == channel else position
        elif b'"commitInfo"' in line:
            info = json.loads(line).get("commitInfo") or {}
    if position is None:
        return None
    return _Entry(position, utc(info.get("timestamp", 0)), info.get(RUN_ID))
