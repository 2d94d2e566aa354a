"""How far each payload of a batch was read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfcdc_assets.change_events.batch.payload_bytes import Flags, PayloadBytes, Places

MOST_TEXTS = 4096
"""Texts of one list; an event with more is left to the reference."""


@dataclass(frozen=True)
class Texts:
    """Texts of some events, in the order of the events and of their bytes: whose they are, and where."""

    rows: Places
    starts: Places
    sizes: Places


class Reading:
    """Reads the same thing from all payloads, one after another. One that does not have it is given up: `ok` is false,
    and what is read of it from then on means nothing."""

    def __init__(self, source: PayloadBytes) -> None:
        self.source = source
        self.at = source.starts.copy()
        self.ok: Flags = np.ones(len(self.at), bool)

    def give_up(self, rows: Flags | Places) -> None:
        """Leave these payloads to the reference."""
        self.ok[rows] = False
        self.at[rows] = 0  # the padding

    def long(self) -> Places:
        """Return the next number of each."""
        values, sizes, too_long = self.source.longs(self.at)
        self.at += sizes
        if too_long is not None:
            self.give_up(too_long)
        return values

    def text(self) -> tuple[Places, Places]:
        """Start and size of the next text of each."""
        sizes = self.long()
        bad = (sizes < 0) | (sizes > self.source.ends - self.at)
        if bad.any():
            self.give_up(bad)
            sizes[bad] = 0
        starts = self.at.copy()
        self.at += sizes
        return starts, sizes

    def texts(self) -> Texts:
        """Return the next list of texts of each; one that is written in several blocks is given up."""
        counts = self.long()
        bad = (counts < 0) | (counts > MOST_TEXTS)
        if bad.any():
            self.give_up(bad)
            counts[bad] = 0
        found: list[tuple[Places, Places, Places]] = []
        rows = np.flatnonzero(counts)
        ended = rows
        for number in range(int(counts.max(initial=0))):
            rows = rows[(counts[rows] > number) & self.ok[rows]]
            sizes, taken, too_long = self.source.longs(self.at[rows])
            starts = self.at[rows] + taken
            bad = (sizes < 0) | (sizes > self.source.ends[rows] - starts)
            if too_long is not None:
                bad |= too_long
            self.at[rows] = starts + sizes
            if bad.any():
                self.give_up(rows[bad])
                rows, starts, sizes = rows[~bad], starts[~bad], sizes[~bad]
            found.append((rows, starts, sizes))
        again = self.source.data[self.at[ended]] != 0
        self.at[ended] += 1
        if again.any():
            self.give_up(ended[again])
        if len(found) == 1:
            return Texts(*found[0])
        rows, starts, sizes = (
            (np.concatenate(each) for each in zip(*found, strict=True)) if found else (np.empty(0, np.int64),) * 3
        )
        order = np.argsort(rows, kind="stable")
        return Texts(rows[order], starts[order], sizes[order])

    def checked(self, texts: Texts) -> pa.StringArray:
        """Return the texts; null where one is not UTF-8, and its payload is given up."""
        read = self.source.slices(texts.starts, texts.sizes)
        try:
            return read.cast(pa.string())
        except pa.ArrowInvalid:
            decoded = [_utf8(text) for text in read.to_pylist()]
            self.give_up(texts.rows[[text is None for text in decoded]])
            return pa.array(decoded, pa.string())

    def not_past_the_end(self) -> None:
        """Give up what was read beyond its own bytes."""
        beyond = self.at > self.source.ends
        if beyond.any():
            self.give_up(beyond)


def _utf8(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None
