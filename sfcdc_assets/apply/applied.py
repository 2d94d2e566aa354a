"""What the task of one key range reports: typed on both sides, rows of Arrow on the way through Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from sfcdc_assets.key_ranges.data_file import WrittenKeyRange
from sfcdc_assets.key_ranges.range_rows import RowCounts
from sfcdc_assets.timeline.implied_change import SilentChange
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets.timeline.timeline import Counts

_FILE = pa.struct([("path", pa.string()), ("size", pa.int64()), ("rows", pa.int64()), ("statistics", pa.string())])
_SUSPECT = pa.struct(
    [("record_id", pa.string()), ("reason", pa.string()), ("position", pa.int64()), ("detail", pa.string())]
)
_COUNTS = pa.struct([("rows", pa.int64()), ("deleted", pa.int64()), ("suspects", pa.int64())])
_SILENT = pa.struct([("record_id", pa.string()), ("position", pa.int64()), ("detail", pa.string())])

APPLIED = pa.schema(
    [
        ("key_range", pa.int32()),
        ("replaced", pa.list_(pa.string())),
        ("files", pa.list_(_FILE)),
        ("superseded", pa.list_(_FILE)),
        ("texts", pa.list_(_FILE)),
        ("suspects", pa.list_(_SUSPECT)),
        ("silent", pa.list_(_SILENT)),
        ("rows_before", _COUNTS),
        ("rows_after", _COUNTS),
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("read_back", pa.int64()),
        ("waiting", pa.int64()),
        ("versions", pa.int64()),
    ]
)
"""`Applied`, one a row."""


@dataclass(frozen=True)
class Applied:
    """What was written for one key range, which no commit names yet, and what was found there.

    `files` take the place of those that are `replaced` (paths). `superseded` and `texts` are files for `history`
    and `text_fields`. `rows_before` are those of the files that are replaced, `rows_after` those of the new ones.
    """

    key_range: int
    replaced: tuple[str, ...] = ()
    files: tuple[WrittenKeyRange, ...] = ()
    superseded: tuple[WrittenKeyRange, ...] = ()
    texts: tuple[WrittenKeyRange, ...] = ()
    suspects: tuple[NewSuspect, ...] = ()
    silent: tuple[SilentChange, ...] = ()
    rows_before: RowCounts = field(default_factory=RowCounts)
    rows_after: RowCounts = field(default_factory=RowCounts)
    counts: Counts = field(default_factory=Counts)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Applied:
        """Return the result that a row of `APPLIED` holds."""
        return cls(
            key_range=row["key_range"],
            replaced=tuple(row["replaced"]),
            files=_files(row["files"]),
            superseded=_files(row["superseded"]),
            texts=_files(row["texts"]),
            suspects=tuple(NewSuspect(**{**each, "reason": Reason(each["reason"])}) for each in row["suspects"]),
            silent=tuple(SilentChange(**each) for each in row["silent"]),
            rows_before=RowCounts(**row["rows_before"]),
            rows_after=RowCounts(**row["rows_after"]),
            counts=Counts(**{name: row[name] for name in asdict(Counts())}),
        )

    def to_row(self) -> dict[str, object]:
        """Return a row of `APPLIED`."""
        reported: dict[str, object] = asdict(self)
        del reported["counts"]
        return reported | asdict(self.counts)


def _files(rows: Iterable[Mapping[str, Any]]) -> tuple[WrittenKeyRange, ...]:
    return tuple(WrittenKeyRange(**row) for row in rows)
