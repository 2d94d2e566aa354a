"""What updates set: which slots become cells, and which of those are null or hold a diff, whatever their event carries
(see `EventCells.update` for one event).

A whole compound field is named by its own bit, and then its parts with it. A field that is nulled is null even where
other bitmaps name it, but for a part of a compound field that is sent as a whole: that one is read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sfcdc_assets.change_events.batch.bitmaps import BitmapReader
from sfcdc_assets.change_events.batch.payload_bytes import Flags, Places
from sfcdc_assets.change_events.batch.payload_cursors import Reading, Texts
from sfcdc_assets.change_events.batch.slots import Slots

Marks = npt.NDArray[np.uint8]

CHANGED, NULLED, DIFF, WHOLE_NULLED, WHOLE_SENT = (np.uint8(1 << bit) for bit in range(5))
_BITMAPS = {"changedFields": CHANGED, "nulledFields": NULLED, "diffFields": DIFF}


class NamedSlots:
    """For each event and slot what the event's header says of it, as marks; slots go by their rank."""

    def __init__(self, slots: Slots, bitmaps: BitmapReader) -> None:
        self._slots = slots
        self._bitmaps = bitmaps

    def marks(self, reading: Reading, texts: Mapping[str, Texts], is_update: Flags, sets_all: Flags) -> Marks:
        """One row for each payload. Payloads whose header says what only the reference can answer are given up.

        `sets_all`: events that set every wanted slot.
        """
        slots = self._slots
        marks = np.zeros((len(reading.ok), slots.count), np.uint8)
        for name, mark in _BITMAPS.items():
            self._mark(marks, reading, _of(texts[name], is_update), mark)
        whole = np.flatnonzero(sets_all)
        if len(whole):
            marks[whole, : slots.wanted] = CHANGED
            if slots.is_left_out.any():
                reading.give_up(whole)
        return marks

    def _mark(self, marks: Marks, reading: Reading, elements: Texts, mark: np.uint8) -> None:
        slots, source = self._slots, reading.source
        rows, named, bad = self._bitmaps.read(source, elements)
        if len(bad):
            reading.give_up(bad)
        marks[rows, slots.rank[named]] |= mark
        is_part = named >= slots.fields
        # Parts of what may be a text, and lists of checkboxes.
        left = slots.is_left_out[named] | (is_part & slots.is_switchable[slots.parent[named]])
        if left.any():
            reading.give_up(rows[left])
        compound = np.flatnonzero(slots.child_count[named])
        if len(compound):
            counts = slots.child_count[named[compound]]
            part_rows = np.repeat(rows[compound], counts)
            begin = np.repeat(np.cumsum(counts) - counts, counts)
            parts = np.repeat(slots.first_child[named[compound]], counts) + np.arange(len(part_rows)) - begin
            marks[part_rows, slots.rank[parts]] |= WHOLE_NULLED if mark == NULLED else WHOLE_SENT


def is_nulled(marks: Marks) -> Flags:
    """Return whether slots that are marked so are null, whatever the event carries."""
    nulled: Flags = ((marks & WHOLE_NULLED) != 0) | ((marks & (NULLED | WHOLE_SENT)) == NULLED)
    return nulled


def is_diff(marks: Marks) -> Flags:
    """Return whether what the event carries for slots that are marked so is a diff."""
    diffs: Flags = (marks & (DIFF | NULLED | WHOLE_NULLED)) == DIFF
    return diffs


def _of(texts: Texts, rows: Flags) -> Texts:
    kept = rows[texts.rows]
    if kept.all():
        return texts
    places: tuple[Places, ...] = (texts.rows[kept], texts.starts[kept], texts.sizes[kept])
    return Texts(*places)
