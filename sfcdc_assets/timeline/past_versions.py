"""The versions of a record before the first one that is known, folded backwards from its field history.

What is proven of a column's value between two of its changes:

* both ends: the value after the one and before the other (or in the first known version) are the same. Only a field
  whose tracking was switched off and on again in between, and whose value went and came back meanwhile, would make that
  wrong;
* one end, and nothing else could have changed it: the field is known to have been tracked all the time;
* nothing, where the two ends differ: a change between them has no row. That is a gap, and it refutes that the field was
  tracked all the time.

A version names the columns whose values are certain, as those of `history` do; nothing is made up for the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.timeline.field_history import UNKNOWN, Change, HistoryRow, Misfit, Why, changes_of, second

CREATED_DATE, CREATED_BY = "CreatedDate", "CreatedById"
_NEVER_CHANGED = ("Id", CREATED_DATE, CREATED_BY)


@dataclass(frozen=True)
class FirstVersion:
    """The first known version: values as tables hold them, and since when it is valid. `certain`: the columns whose
    values are; None: all."""

    values: Mapping[str, Any]
    valid_from: datetime
    certain: Collection[str] | None = None

    def value(self, name: str) -> Any:
        """Return a column's value; `UNKNOWN` where it is not certain."""
        known = name in self.values and (self.certain is None or name in self.certain or name == "Id")
        return self.values[name] if known else UNKNOWN


@dataclass(frozen=True)
class PastVersion:
    """A version. `values`: those of the columns that are certain. `change_type` as in `history`: CREATE, UPDATE, or
    UNKNOWN where a version begins because tracking does. `changed_fields`: those that rows name; others may have
    changed too."""

    valid_from: datetime
    valid_to: datetime
    change_type: str
    values: Mapping[str, Any]
    changed_fields: tuple[str, ...] | None = None
    commit_user: str | None = None

    @property
    def certain_fields(self) -> tuple[str, ...]:
        """The columns whose values are certain, but `Id`, in the order of the columns."""
        return tuple(name for name in self.values if name != "Id")


@dataclass(frozen=True)
class Folded:
    """The versions, oldest first: each ends where the next one begins, the last at the first known version. `misfits`:
    what of the rows does not fit, oldest first."""

    versions: tuple[PastVersion, ...]
    misfits: tuple[Misfit, ...]


def fold_history(
    columns: Sequence[Column],
    first: FirstVersion,
    rows: Iterable[HistoryRow],
    tracked_since: Mapping[str, datetime] = MappingProxyType({}),
) -> Folded:
    """Fold a record's rows back from its first known version.

    Rows that are younger than this version are left out: what is known stays as it is. `tracked_since`: columns whose
    history is known to have been tracked from then to the first version, with all its rows still there (Salesforce
    deletes those of more than 18 to 24 months). The oldest row of the field in the whole object shows that it was; a
    version begins at each such moment, so give few. A record whose creation is not known has no version before its
    oldest row.
    """
    known = changes_of(columns, rows)
    end, created_date = second(first.valid_from), first.value(CREATED_DATE)
    created = known.created_at if created_date in (UNKNOWN, None) else second(created_date)
    changes = [change for change in known.changes if change.at <= end]
    misfits = list(known.misfits)
    if created is not None:
        misfits += [Misfit(each.column, each.at, Why.BEFORE_CREATION) for each in changes if each.at < created]
        changes = [change for change in changes if change.at >= created]
    begin = created or min((change.at for change in changes), default=end)
    if begin >= end:
        return Folded((), tuple(_in_order(misfits)))
    own: dict[str, list[Change]] = {column.name: [] for column in columns if column.kept_from is None}
    for change in changes:
        own[change.column].append(change)
    proofs: dict[str, Sequence[_Proof]] = {}
    for name, of_column in own.items():
        value = first.value(name)
        if name in _NEVER_CHANGED:
            proofs[name] = [_Proof(begin, first.valid_from, value)] if value is not UNKNOWN else []
            continue
        times = list(_times(of_column, begin, first.valid_from, value))
        gaps = [time for time in times if time.is_gap]
        misfits += [Misfit(name, time.start, Why.GAP) for time in gaps]
        since = tracked_since.get(name)
        if since is not None and any(since <= time.start for time in gaps):
            since = None
        proofs[name] = [proof for time in times if (proof := time.proof(since)) is not None]
    starts = {since for name, since in tracked_since.items() if name in own and begin < since < end}
    moments = sorted({begin, *(change.at for change in changes if change.at < end), *starts})
    versions = []
    for start, stop in zip(moments, [*moments[1:], first.valid_from], strict=True):
        values = {
            name: proof.value
            for name, of_column in proofs.items()
            for proof in of_column
            if proof.start <= start and stop <= proof.stop
        }
        if start == created:
            creator = values.get(CREATED_BY)
            versions.append(PastVersion(start, stop, "CREATE", values, None, creator))
            continue
        made_by = [change for change in changes if change.at == start]
        users = {user for change in made_by for user in change.users}
        kind, user = "UPDATE" if made_by else "UNKNOWN", users.pop() if len(users) == 1 else None
        versions.append(PastVersion(start, stop, kind, values, tuple(each.column for each in made_by) or None, user))
    return Folded(tuple(versions), tuple(_in_order(misfits)))


@dataclass(frozen=True, slots=True)
class _Proof:
    """A value that a column had from a moment to another."""

    start: datetime
    stop: datetime
    value: Any


@dataclass(frozen=True, slots=True)
class _Time:
    """A time in which no row says that a column changed: its value right after the start, and right before the end."""

    start: datetime
    stop: datetime
    after: Any
    before: Any

    @property
    def is_gap(self) -> bool:
        """Whether the column must have changed all the same."""
        return self.after is not UNKNOWN and self.before is not UNKNOWN and self.after != self.before

    def proof(self, tracked_since: datetime | None) -> _Proof | None:
        """Return what is proven of it, where the field was tracked since then (None: it is not known)."""
        if self.after is not UNKNOWN and self.after == self.before:
            return _Proof(self.start, self.stop, self.before)
        if tracked_since is None or tracked_since >= self.stop:
            return None
        if self.before is not UNKNOWN:
            return _Proof(max(self.start, tracked_since), self.stop, self.before)
        shows = self.after is not UNKNOWN and tracked_since <= self.start
        return _Proof(self.start, self.stop, self.after) if shows else None


def _times(changes: Sequence[Change], begin: datetime, end: datetime, value: Any) -> Iterator[_Time]:
    """Yield the times between a column's changes; `value`: that of the first known version, which begins at `end`."""
    start, after = begin, UNKNOWN
    for change in changes:
        if change.at == second(end):
            # The first version lies within this second: some of the rows may be younger, but not what was before them.
            yield _Time(start, end, after, change.before)
            return
        if start < change.at:
            yield _Time(start, change.at, after, change.before)
        start, after = change.at, change.after
    yield _Time(start, end, after, value)


def _in_order(misfits: Iterable[Misfit]) -> list[Misfit]:
    return sorted(misfits, key=lambda misfit: (misfit.at, misfit.field, misfit.why))
