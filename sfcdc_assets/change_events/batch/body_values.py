"""The values of bodies: what is not null, wherever in the schema it stands.

Each event is at a slot of its own. A round brings all of them over the nulls before their next value and reads it, so
there are as many rounds as the fullest event has values, and nulls cost next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfcdc_assets.change_events.batch.payload_bytes import WINDOW, Places
from sfcdc_assets.change_events.batch.payload_cursors import Reading
from sfcdc_assets.change_events.batch.slots import Kind, Slots

FEWEST_ROUNDS = 16
FEWEST_EVENTS = 32
"""A round over a few events costs as much as one over hundreds. After so many rounds fewer events than these, fuller
than the others, are left to the reference."""


@dataclass(frozen=True)
class BodyValues:
    """Values in the order of the events and of their bytes: whose, at which order (see `Slots`), of which kind. `place`
    is where a text begins, else the number, a double as its bits; `size` that of a text."""

    row: Places
    order: Places
    kind: Places
    place: Places
    size: Places


@dataclass(frozen=True)
class _Found:
    """Values that one round read: at most one of each event; `number` counts the values of an event."""

    row: Places
    slot: Places
    kind: Kind
    place: Places
    size: Places
    number: Places


def body_values(reading: Reading, slots: Slots) -> BodyValues:
    """Read the bodies of all payloads that were not given up, to their last byte."""
    return _Walk(reading, slots).values()


class _Walk:
    def __init__(self, reading: Reading, slots: Slots) -> None:
        self._reading = reading
        self._source = reading.source
        self._slots = slots
        self._row = np.flatnonzero(reading.ok)
        self._at = reading.at[self._row]
        self._slot = np.zeros(len(self._row), np.int64)
        self._segment_end = np.full(len(self._row), slots.fields)
        """Where the slots end that are gone through: the body's, or those of a compound field's parts."""
        self._number = np.zeros(len(self._row), np.int64)
        self._found: list[_Found] = []

    def values(self) -> BodyValues:
        rounds = 0
        while len(self._row):
            self._pass_nulls()
            self._keep((self._slot != self._slots.fields) | (self._segment_end != self._slots.fields), ended=True)
            if rounds >= FEWEST_ROUNDS and len(self._row) < FEWEST_EVENTS:
                self._keep(np.zeros(len(self._row), bool))
            self._keep(self._at < self._source.ends[self._row])
            self._read()
            rounds += 1
        return self._ordered()

    def _pass_nulls(self) -> None:
        slots = self._slots
        going = np.flatnonzero((self._source.data[self._at] == 0) | (self._slot == self._segment_end))
        while len(going):
            left = self._segment_end[going] - self._slot[going]
            passed = np.minimum(self._source.zeros(self._at[going]), left)
            self._at[going] += passed
            self._slot[going] += passed
            going_on = (passed == WINDOW) & (left > WINDOW)
            at_end = (passed == left) & (self._segment_end[going] > slots.fields)
            up = going[at_end]
            if len(up):
                self._slot[up] = slots.parent[self._slot[up] - 1] + 1
                self._segment_end[up] = slots.fields
            going = going[going_on | at_end]

    def _keep(self, kept: npt.NDArray[np.bool_], *, ended: bool = False) -> None:
        """Go on with some; the others are done, if they end where their bytes end, or else given up."""
        if kept.all():
            return
        rows = self._row[~kept]
        if ended:
            rows = rows[self._at[~kept] != self._source.ends[rows]]
        self._reading.give_up(rows)
        self._row, self._at, self._slot = self._row[kept], self._at[kept], self._slot[kept]
        self._segment_end, self._number = self._segment_end[kept], self._number[kept]

    def _read(self) -> None:
        kinds = self._slots.kinds[self._slot, self._source.data[self._at]]
        self._at += 1
        bad = kinds == Kind.OTHER
        present = np.bincount(kinds, minlength=len(Kind))
        for kind in Kind:
            if kind is Kind.OTHER or not present[kind]:
                continue
            which = np.flatnonzero(kinds == kind) if present[kind] < len(kinds) else slice(None)
            at = self._at[which]
            if kind is Kind.RECORD:
                self._enter(which)
                continue
            sizes = np.zeros(len(at), np.int64)
            if kind is Kind.STRING:
                sizes, taken, too_long = self._source.longs(at)
                places = at + taken
                unfit = (sizes < 0) | (sizes > self._source.ends[self._row[which]] - places)
                unfit = unfit if too_long is None else unfit | too_long
                bad[which] = unfit
                after = np.where(unfit, 0, places + sizes)
            elif kind is Kind.LONG:
                places, taken, too_long = self._source.longs(at)
                after = at + taken
                if too_long is not None:
                    bad[which] = too_long
            elif kind is Kind.BOOLEAN:
                places, after = self._source.data[at].astype(np.int64), at + 1
                bad[which] = places > 1
            elif kind is Kind.DOUBLE:
                places, after = self._source.words(at).view(np.int64), at + 8
            else:
                single = self._source.words(at).astype(np.uint32).view(np.float32)
                places, after = single.astype(np.float64).view(np.int64), at + 4
            self._at[which] = after
            self._note(which, kind, places, sizes)
            self._slot[which] += 1
        if bad.any():
            self._keep(~bad)

    def _enter(self, which: Places | slice) -> None:
        """Go into the parts of compound fields."""
        slots, parents = self._slots, self._slot[which].copy()
        switchable = slots.is_switchable[parents]
        if switchable.any():
            nothing = np.zeros(len(parents), np.int64)
            self._note(which, Kind.RECORD, nothing, nothing)
        self._slot[which] = slots.first_child[parents]
        self._segment_end[which] = slots.first_child[parents] + slots.child_count[parents]

    def _note(self, which: Places | slice, kind: Kind, places: Places, sizes: Places) -> None:
        number = self._number[which].copy()
        self._found.append(_Found(self._row[which], self._slot[which].copy(), kind, places, sizes, number))
        self._number[which] = number + 1

    def _ordered(self) -> BodyValues:
        """Return what the rounds found, event by event."""
        found, ok = self._found, self._reading.ok
        row = _joined([each.row for each in found])
        kept = ok[row]
        row = row[kept]
        counts = np.bincount(row, minlength=len(ok))
        first = np.cumsum(counts) - counts
        to = first[row] + _joined([each.number for each in found])[kept]

        def placed(parts: list[Places]) -> Places:
            joined = _joined(parts)[kept]
            out = np.empty_like(joined)
            out[to] = joined
            return out

        kinds = [np.full(len(each.row), int(each.kind), np.int64) for each in found]
        return BodyValues(
            np.repeat(np.arange(len(ok)), counts),
            placed([self._slots.order[each.slot] for each in found]),
            placed(kinds),
            placed([each.place for each in found]),
            placed([each.size for each in found]),
        )


def _joined(parts: list[Places]) -> Places:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
