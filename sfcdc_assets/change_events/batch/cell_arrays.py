"""Cells of many events, as arrays: their values converted column type by column type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.batch.body_values import BodyValues
from sfcdc_assets.change_events.batch.payload_bytes import Flags, PayloadBytes, Places
from sfcdc_assets.change_events.batch.slots import Kind, Read, Slots
from sfcdc_assets.change_events.cell_lists import CELL, MEMBERS
from sfcdc_assets.change_events.cell_value import DAY_MS, in_calendar

_ID_LENGTH = 18
_LONGS = np.isin(np.arange(len(Read)), (Read.BOOLEAN, Read.INT, Read.DATE, Read.DATETIME))


NOTHING = np.uint8(len(MEMBERS))
_S, _D, _L = (np.uint8(MEMBERS.index(member)) for member in "sdl")


@dataclass
class Cells:
    """`slot` of each cell, and its value in one of the members of `CELL`: `has` says which by its place in `MEMBERS`,
    or `NOTHING` for a null. `unfit`: the value is one that its column cannot hold."""

    slot: Places
    strings: pa.StringArray
    doubles: npt.NDArray[np.float64]
    longs: Places
    has: npt.NDArray[np.uint8]
    unfit: Flags

    def structs(self, slots: Slots) -> pa.StructArray:
        """Return the cells as an array of `CELL`."""
        columns = pa.array(slots.column[self.slot])
        doubles = pa.array(self.doubles, mask=self.has != _D)
        longs = pa.array(self.longs, mask=self.has != _L)
        return pa.StructArray.from_arrays([columns, self.strings, doubles, longs], fields=list(CELL))


class ValueArrays:
    """The values of a batch's bodies, ready to become cells."""

    def __init__(
        self,
        source: PayloadBytes,
        values: BodyValues,
        texts: pa.StringArray,
        slots: Slots,
        members: npt.NDArray[np.uint8],
    ) -> None:
        """`texts`: those of the values that are texts, in their order; `members`: of each column (`members_of`)."""
        self._source = source
        self._values = values
        self._texts = texts
        self._rank = np.cumsum(values.kind == Kind.STRING) - 1
        """The place of a value among the texts."""
        self._slots = slots
        self._members = members

    def cells(self, slot: Places, at: Places) -> Cells:
        """Cells of these slots, each with the value at a place in the values, or null where that is negative."""
        count = len(slot)
        has, unfit = np.full(count, NOTHING), np.zeros(count, bool)
        cells = Cells(slot, pa.nulls(count, pa.string()), np.zeros(count), np.zeros(count, np.int64), has, unfit)
        there = np.flatnonzero(at >= 0)
        value = at[there]
        read, place = self._slots.read[slot[there]], self._values.place[value]
        is_long = _LONGS[read]
        if is_long.any():
            which = there[is_long]
            cells.longs[which], unfit[which] = _converted(place[is_long], read[is_long])
            has[which] = _L
        is_double = read == Read.DOUBLE
        if is_double.any():
            which = there[is_double]
            doubles = place[is_double].view(np.float64)
            cells.doubles[which], has[which], unfit[which] = doubles, _D, ~np.isfinite(doubles)
        one_by_one = (read == Read.ONE_BY_ONE) | ((read == Read.REFERENCE) & ~self._are_long_ids(value, place))
        # An empty text is null.
        is_text = ((read == Read.TEXT) | (read == Read.REFERENCE)) & ~one_by_one & (self._values.size[value] > 0)
        if is_text.any():
            which = there[is_text]
            rank = np.zeros(count, np.int64)
            rank[which], has[which] = self._rank[value[is_text]], _S
            cells.strings = self._texts.take(pa.array(rank, mask=has != _S))
        if one_by_one.any():
            self._convert(cells, there[one_by_one], value[one_by_one])
        return cells

    def _are_long_ids(self, value: Places, place: Places) -> Flags:
        """Return whether these texts are of 18 ASCII characters, as ids are that need no conversion."""
        long: Flags = self._values.size[value] == _ID_LENGTH
        if long.any():
            windows = self._source.windows(_ID_LENGTH)[place[long]].view(np.uint8).reshape(-1, _ID_LENGTH)
            long[long] = windows.max(axis=1) < 0x80
        return long

    def _convert(self, cells: Cells, which: Places, value: Places) -> None:
        """Put in the values that only their leaf's own converter can read."""
        texts: list[str] = []
        for cell, each in zip(which.tolist(), value.tolist(), strict=True):
            leaf = self._slots.leaves[int(cells.slot[cell])]
            try:
                converted = leaf.convert(self._python(each))
            except (ValueError, OverflowError):
                cells.unfit[cell] = True
                continue
            if converted is None:
                continue
            member = cells.has[cell] = self._members[leaf.column]
            if member == _S:
                texts.append(str(converted))
            elif member == _D:
                cells.doubles[cell] = converted
            else:
                cells.longs[cell] = converted
        if texts:
            is_text = np.zeros(len(cells.slot), bool)
            is_text[which] = cells.has[which] == _S
            cells.strings = pc.replace_with_mask(cells.strings, pa.array(is_text), pa.array(texts, pa.string()))

    def _python(self, value: int) -> str | int | float | bool:
        kind, place = self._values.kind[value], self._values.place[value]
        if kind == Kind.STRING:
            return str(self._texts[int(self._rank[value])].as_py())
        if kind == Kind.LONG:
            return int(place)
        if kind == Kind.BOOLEAN:
            return bool(place)
        return float(np.int64(place).view(np.float64))


def _converted(numbers: Places, reads: npt.NDArray[np.uint8]) -> tuple[Places, Flags]:
    """Numbers as their columns hold them, and which of them do not fit."""
    bad = (reads == Read.INT) & ((numbers < -(2**31)) | (numbers >= 2**31))
    is_time = (reads == Read.DATE) | (reads == Read.DATETIME)
    if is_time.any():
        bad |= is_time & ~in_calendar(numbers)
        bad |= (reads == Read.DATE) & (numbers % DAY_MS != 0)
        numbers = np.where(bad, 0, numbers)
        numbers = np.where(reads == Read.DATE, numbers // DAY_MS, np.where(is_time, numbers * 1000, numbers))
    return numbers, bad
