"""The bytes of many payloads in one array, and what of Avro can be read at many places at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PADDING = 1024
"""Zeros before the first payload and after the last: windows may reach over the ends, and an event that is given up is
parked in the first of them, where whatever is read is 0."""
WINDOW = 64
_LAST_OF_WORD = np.uint64(0x8080808080808080)
_SEVEN_BITS = (
    # mask of the groups that stay, mask of those that move down, by how many bits
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


class PayloadBytes:
    """`starts` and `ends` are each payload's places in `data`."""

    def __init__(self, payloads: pa.Array) -> None:
        """`payloads`: binary, none of them null."""
        _, offsets, values = payloads.cast(pa.binary()).buffers()
        count = len(payloads)
        bounds = np.frombuffer(offsets, np.int32, count + 1, payloads.offset * 4).astype(np.int64)
        size = int(bounds[-1] - bounds[0])
        self.data = np.zeros(size + 2 * PADDING, np.uint8)
        if size:
            self.data[PADDING : PADDING + size] = np.frombuffer(values, np.uint8, size, int(bounds[0]))
        bounds += PADDING - bounds[0]
        self.starts, self.ends = bounds[:-1].copy(), bounds[1:].copy()
        self._words = self.windows(8).view("<u8")
        self._windows = self.windows(WINDOW)

    def windows(self, width: int) -> npt.NDArray[np.void]:
        """Return for each place the bytes from there on, as many as `width`; nothing is copied."""
        shape = (len(self.data) - width + 1,)
        return np.ndarray(shape, f"V{width}", self.data, strides=(1,))

    def words(self, at: Places) -> npt.NDArray[np.uint64]:
        """Return the eight bytes from each place on, the first one lowest."""
        return self._words[at]

    def longs(self, at: Places) -> tuple[Places, Places, Flags | None]:
        """Return the numbers at these places, how many bytes each takes, and which of them have more bytes than are
        looked at here (eight); None: none has."""
        coded = self.data[at].astype(np.int64)
        sizes = np.ones(len(at), np.int64)
        too_long: Flags | None = None
        if coded.max(initial=0) >= 0x80:
            more = np.flatnonzero(coded >= 0x80)
            words = self._words[at[more]]
            last = ~words & _LAST_OF_WORD
            last &= -last
            sizes[more] = (np.bitwise_count(last - np.uint64(1)).astype(np.int64) + 1) >> 3
            words &= last - np.uint64(1)
            words &= ~_LAST_OF_WORD
            for stay, move, bits in _SEVEN_BITS:
                words = (words & stay) | ((words & move) >> bits)
            coded[more] = words.view(np.int64)
            if not last.all():
                too_long = np.zeros(len(at), bool)
                too_long[more] = last == 0
        return (coded >> 1) ^ -(coded & 1), sizes, too_long

    def zeros(self, at: Places) -> Places:
        """Return how many bytes from each place on are zero; `WINDOW` stands for as many or more."""
        words = self._windows[at].view("<u8").reshape(len(at), WINDOW // 8)
        is_set = words != 0
        first = is_set.argmax(axis=1)
        word = words[np.arange(len(at)), first]
        zeros: Places = first * 8 + (np.bitwise_count((word & -word) - np.uint64(1)).astype(np.int64) >> 3)
        zeros[word == 0] = WINDOW
        return zeros

    def slices(self, starts: Places, sizes: Places) -> pa.BinaryArray:
        """Pieces of the data, which must follow one another in it, as an array."""
        count = len(starts)
        bounds = np.empty(2 * count + 1, np.int32)
        bounds[0 : 2 * count : 2] = starts
        bounds[1 : 2 * count : 2] = starts + sizes
        bounds[-1] = bounds[-2] if count else 0
        # What lies between two pieces is a value of its own, which is left out.
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        both = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
        return both.take(pa.array(np.arange(0, 2 * count, 2)))
