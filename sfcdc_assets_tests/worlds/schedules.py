"""Schedules: in which batches a story is applied, where the org is read in between, and where a batch dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sfcdc_assets_tests.worlds.memory_tables import Reading


class Batch(NamedTuple):
    """Apply up to a position; it dies after so many of its three commits, if that is less."""

    up_to: int
    commits: int = 3


Step = Reading | Batch
Schedule = tuple[Step, ...]


def schedules(length: int, readings: int, crashes: int, ahead: int = 1) -> Iterator[Schedule]:
    """Yield every schedule of stories of a length.

    The first snapshot has its watermark anywhere. After it there are batches up to any positions, before any of them a
    reading (a snapshot, of the suspect records, of all), at most `readings` in all: its watermark is not before that of
    the one before, and it shows what there was at the watermark or up to `ahead` events later. Of `crashes` batches
    each dies after its first or its second commit, and the next one begins where it did, with what was landed
    meanwhile.
    """
    for watermark in range(length + 1):
        for shows in range(watermark, min(watermark + ahead, length) + 1):
            first = Reading(watermark, shows, is_snapshot=True)
            maker = _Maker(length, ahead)
            for up_to in range(length + 1):
                for rest in maker.batches(up_to, watermark, readings, crashes):
                    if _shows_no_less((first, *rest)):
                        yield (first, *rest)


def _shows_no_less(schedule: Schedule) -> bool:
    """Return whether each reading shows what the one before showed, or what came later: an org does not go back."""
    shown = [step.shows for step in schedule if isinstance(step, Reading)]
    return shown == sorted(shown)


class _Maker(NamedTuple):
    length: int
    ahead: int

    def batches(self, up_to: int, watermark: int, readings: int, crashes: int) -> Iterator[Schedule]:
        """Yield a batch, its tries that die before it, and all that may follow."""
        for rest in self.after(up_to, watermark, readings, crashes):
            yield (Batch(up_to), *rest)
        if crashes:
            for again in range(up_to, self.length + 1):
                for rest in self.batches(again, watermark, readings, crashes - 1):
                    yield from ((Batch(up_to, commits), *rest) for commits in (1, 2))

    def after(self, done: int, watermark: int, readings: int, crashes: int) -> Iterator[Schedule]:
        """Yield all that may follow a batch."""
        if done == self.length:
            yield ()
        for up_to in range(done + 1, self.length + 1):
            yield from self.batches(up_to, watermark, readings, crashes)
        for reading in self.readings(watermark, done) if readings else ():
            for up_to in range(done, self.length + 1):
                for rest in self.batches(up_to, reading.watermark, readings - 1, crashes):
                    yield (reading, *rest)

    def readings(self, watermark: int, done: int) -> Iterator[Reading]:
        """Yield the readings that may come after one with a watermark. A snapshot takes long, and what is landed
        meanwhile is applied; a read-back has its watermark after all that is."""
        for each in range(watermark, self.length + 1):
            for shows in range(each, min(each + self.ahead, self.length) + 1):
                yield Reading(each, shows, is_snapshot=True)
                if each >= done:
                    yield Reading(each, shows)
                    yield Reading(each, shows, of_all=True)
