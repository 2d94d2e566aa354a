"""The files of a table's log, by version: commits and checkpoints, when each was written, and from where a version can
be opened."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import inf

from pyarrow import fs

from sfcdc_assets.lake.delta.commit_protocol import LOG
from sfcdc_assets.lake.warehouse import Warehouse

_OURS = re.compile(r"(\d{20})\.(json|checkpoint\.parquet|crc)")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\..+")


@dataclass(frozen=True)
class LogFiles:
    """The files of a log by version, with the time (epoch seconds) at which each was written."""

    commits: dict[int, float] = field(default_factory=dict)
    checkpoints: dict[int, float] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """Of the checkpoints."""
    others: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    has_other_forms: bool = False

    @classmethod
    def read(cls, warehouse: Warehouse, name: str) -> LogFiles:
        """Read the log of the table, as it is."""
        log, has_other_forms = cls(), False
        found = warehouse.filesystem(name).get_file_info(fs.FileSelector(LOG))
        for info in found:
            matched = _OURS.fullmatch(info.base_name)
            if matched is None:
                has_other_forms |= _CHECKPOINT.fullmatch(info.base_name) is not None
                continue
            version, kind = int(matched[1]), matched[2]
            written = written_at(info)
            if kind == "crc":
                log.others[version].append(info.base_name)
            elif kind == "json":
                log.commits[version] = written
            else:
                log.checkpoints[version], log.sizes[version] = written, info.size or 0
        return replace(log, has_other_forms=has_other_forms)

    def base(self, version: int) -> int | None:
        """Return the checkpoint that a reader of the version begins with; -1: the table's beginning; None: it cannot be
        opened."""
        base = max((each for each in self.checkpoints if each <= version), default=-1)
        return base if all(each in self.commits for each in range(base + 1, version + 1)) else None

    def between(self, first: int, last: int) -> list[int]:
        """Versions with entries after the first and before the last, or with a commit at the last."""
        inside = {each for each in (*self.commits, *self.checkpoints) if first < each < last}
        return sorted(inside | ({last} & self.commits.keys()))


def written_at(info: fs.FileInfo) -> float:
    """Return when a file was written (epoch seconds); a file of which the store does not say it is never old."""
    return info.mtime_ns / 1e9 if info.mtime_ns is not None else inf
