"""An event as it is published, before the bus gives it a replay id, and second copies of such events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class BusEvent:
    """One event, of an object (a change event) or a platform event: `entity` is its name."""

    entity: str
    schema_id: str
    schema_json: str
    payload: bytes
    event_id: str | None = None
    """The uuid, if the bus is not to choose one."""
    beside_previous: bool = False
    """Shares the replay id of the event before it."""
    copy_after: int | None = None
    """Published a second time, under the same uuid, after so many other events."""
    is_selected: bool = True
    """On the channel of all change events; one that is not is on custom channels, and on its own topic."""
    channel_payloads: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
    """Custom channels, and the payloads published on them: several if it is taken apart there."""


class SecondCopies:
    """Events published twice (docs/salesforce-streams.md, "Duplicates"): the second copies wait here until enough
    others have been published. In memory: those that wait when the process ends are never published."""

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
