"""Events published twice: the second copies wait here until enough others have been published
(docs/salesforce-streams.md, "Duplicates")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sfcdc_assets.emulator.events.bus_event import BusEvent


class SecondCopies:
    """The copies that are due, kept in memory: those that wait when the process ends are never published."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, BusEvent]] = []

    def among(self, events: Iterable[BusEvent]) -> Iterator[BusEvent]:
        """Yield the events with the copies at their places; none is put between events that share a replay id."""
        for event in events:
            if not event.beside_previous:
                yield from self._due()
            yield event
            self._waiting = [(others - 1, copy) for others, copy in self._waiting]
            if event.copy_after is not None:
                self._waiting.append((event.copy_after, replace(event, copy_after=None)))
        yield from self._due()

    def _due(self) -> list[BusEvent]:
        due = [copy for others, copy in self._waiting if others <= 0]
        self._waiting = [(others, copy) for others, copy in self._waiting if others > 0]
        return due
