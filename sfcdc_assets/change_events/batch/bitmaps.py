"""Which slots the bitmaps of many headers name (see `change_events.bitmap` for one).

Every bitmap is worked out on its own, all of them at once: a batch of updates of which no two change the same fields
costs what one does that changes the same fields over and over. Only elements that name parts of a compound field, of
which there are few, are read as texts and remembered.
"""

from __future__ import annotations

import numpy as np

from sfcdc_assets.change_events.batch.payload_bytes import PADDING, PayloadBytes, Places
from sfcdc_assets.change_events.batch.payload_cursors import Texts
from sfcdc_assets.change_events.batch.slots import Slots
from sfcdc_assets.change_events.bitmap import field_bits
from sfcdc_assets.change_events.errors import BitmapError

_LONGEST = PADDING // 2
"""Digits of a bitmap: four fields each."""
_REMEMBERED = 65_536

_FOUR_BITS = np.arange(4, dtype=np.uint8)
_DIGITS = np.full(256, 0xFF, np.uint8)
for _digit in "0123456789abcdefABCDEF":
    _DIGITS[ord(_digit)] = int(_digit, 16)


class BitmapReader:
    """Reads bitmaps of one schema."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._parts: dict[bytes, tuple[int, ...] | None] = {}

    def read(self, source: PayloadBytes, elements: Texts) -> tuple[Places, Places, Places]:
        """Return the rows and slots that the elements name, and the rows that have one that is left to the
        reference."""
        if not len(elements.rows):
            return (np.empty(0, np.int64),) * 3
        begin = source.words(elements.starts)
        # "0x" or "0X", and a digit at least.
        plain = ((begin & np.uint64(0xDFFF)) == 0x5830) & (elements.sizes > 2) & (elements.sizes <= _LONGEST)
        if plain.all():
            return self._plain(source, elements.rows, elements.starts + 2, elements.sizes - 2)
        which, others = np.flatnonzero(plain), np.flatnonzero(~plain)
        rows, slots, bad = self._plain(
            source, elements.rows[which], elements.starts[which] + 2, elements.sizes[which] - 2
        )
        more, more_slots, more_bad = self._of_parts(source, elements, others)
        return np.append(rows, more), np.append(slots, more_slots), np.append(bad, more_bad)

    def _plain(
        self, source: PayloadBytes, rows: Places, starts: Places, sizes: Places
    ) -> tuple[Places, Places, Places]:
        """Bitmaps of the event's own fields."""
        if not len(rows):
            return (np.empty(0, np.int64),) * 3
        width = -(-int(sizes.max()) // 8) * 8
        # Each one's digits stand at the end of its window; what is before them belongs to something else.
        windows = source.windows(width)[starts + sizes - width].view(np.uint8).reshape(len(rows), width)
        digits = _DIGITS[windows]
        if sizes.min() < width:
            digits[np.arange(width) < (width - sizes)[:, None]] = 0
        # Most digits are 0: eight of them are looked at in one step, and then those that are not.
        eights = digits.view(np.uint64).ravel()
        some = np.flatnonzero(eights)
        within = np.flatnonzero(eights[some].view(np.uint8) != 0)
        digit = some[within >> 3] * 8 + (within & 7)
        values = digits.ravel()[digit]
        bits = np.flatnonzero((values[:, None] >> _FOUR_BITS) & 1)
        number, bit = bits >> 2, bits & 3
        which, place = np.divmod(digit[number], width)
        positions = 4 * (width - 1 - place) + bit
        bad = (positions > self._slots.fields) | (values[number] == 0xFF)
        named = ~bad & (positions > 0)  # position 0 is the header
        return rows[which[named]], positions[named] - 1, rows[which[bad]]

    def _of_parts(self, source: PayloadBytes, elements: Texts, which: Places) -> tuple[Places, Places, Places]:
        rows: list[int] = []
        slots: list[int] = []
        bad: list[int] = []
        data = source.data
        for row, start, size in zip(
            elements.rows[which].tolist(), elements.starts[which].tolist(), elements.sizes[which].tolist(), strict=True
        ):
            named = self._named(data[start : start + min(size, _LONGEST)].tobytes()) if size <= _LONGEST else None
            if named is None:
                bad.append(row)
            else:
                rows.extend([row] * len(named))
                slots.extend(named)
        return np.array(rows, np.int64), np.array(slots, np.int64), np.array(bad, np.int64)

    def _named(self, element: bytes) -> tuple[int, ...] | None:
        """Return the slots of an element; None where the reference has something to say about it."""
        if element not in self._parts:
            if len(self._parts) >= _REMEMBERED:
                self._parts.clear()
            self._parts[element] = self._slots_of(element)
        return self._parts[element]

    def _slots_of(self, element: bytes) -> tuple[int, ...] | None:
        layout = self._slots.layout
        try:
            bits = field_bits([element.decode()], layout)
        except (BitmapError, UnicodeDecodeError):
            return None
        if any(child is not None and layout[position].children is None for position, child in bits):
            return None
        return tuple(self._slots.slot(position, child) for position, child in bits if position)
