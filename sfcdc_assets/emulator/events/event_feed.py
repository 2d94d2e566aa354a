"""The org's events as a person reads them: decoded, each once, while they come.

Watching is no subscription: nothing is metered, no permission hides anything, and no fault strikes.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from sfcdc_assets.emulator.cometd.channels import StreamingTopics
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.feed_sources import BusFeed, FeedEvent, FeedSource, NotificationFeed
from sfcdc_assets.emulator.org.org import EmulatedOrg


@dataclass(frozen=True)
class FeedPlace:
    """How far the feed was read: a number for the bus and one for notifications. As text, `120.7`."""

    bus: int = 0
    notifications: int = 0

    @classmethod
    def parse(cls, text: str) -> FeedPlace:
        """Parse the text of a place, or a plain number, which is one of the bus. Raises ValueError."""
        bus, _, notifications = text.partition(".")
        if not (bus.isdecimal() and (notifications or "0").isdecimal()):
            raise ValueError(text)
        return cls(int(bus), int(notifications or 0))

    def __str__(self) -> str:
        return f"{self.bus}.{self.notifications}"


@dataclass(frozen=True)
class FeedPage:
    """Events oldest first, and the place to read on after."""

    events: tuple[FeedEvent, ...]
    next_after: FeedPlace
    skipped: int = 0
    """Events between the place that was asked for and the first one here."""


class EventFeed:
    """Reads the org's streams, and wakes who waits for what comes next. `stop` ends all waiting at once."""

    def __init__(self, org: EmulatedOrg, bus: EventBus, topics: StreamingTopics) -> None:
        self._org = org
        self._bus = bus
        self._sources: tuple[FeedSource, FeedSource] = (BusFeed(org, bus), NotificationFeed(topics))
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._stopped = False
        self.watched = threading.Event()
        """Whether somebody waits, or has waited, for what comes next."""
        bus.on_wake(self._wake)

    def start(self) -> None:
        """Let who comes wait."""
        self._stopped = False

    def stop(self) -> None:
        """Stop: nobody waits any more, until the next start."""
        self._stopped = True
        self._wake()

    def names(self) -> list[str]:
        """Objects, platform events and channels that may have events."""
        return [name for source in self._sources for name in source.names()]

    def on_channel(self, *channels: str) -> FeedSource:
        """Return what the bus alone has: each event once, or as it is on these custom channels."""
        return BusFeed(self._org, self._bus, channels) if channels else self._sources[0]

    def newest(self, most: int, name: str = "") -> FeedPage:
        """Return the newest `most` events, of one object, platform event or channel, or of all."""
        return self.after(FeedPlace(), most, name, only_newest=True)

    def after(self, place: FeedPlace, most: int, name: str = "", *, only_newest: bool = False) -> FeedPage:
        """Return the first `most` events after a place, or with `only_newest` the last, if there are more.

        Those of both sources are in the order of their times, as far as these tell: a change's is a whole second.
        """
        with self._org.database.lock:
            places = [place.bus, place.notifications]
            starts, skipped = list(places), 0
            if only_newest:
                starts = [
                    max(at, source.before_newest(most, name)) for at, source in zip(places, self._sources, strict=True)
                ]
                skipped = sum(
                    source.count_after(at, name) - source.count_after(start, name)
                    for at, start, source in zip(places, starts, self._sources, strict=True)
                )
            found = [source.after(start, most, name) for start, source in zip(starts, self._sources, strict=True)]
        merged = list(heapq.merge(*(_timed(number, events) for number, (events, _) in enumerate(found))))
        left_out = max(0, len(merged) - most)
        if only_newest:
            shown, skipped = merged[left_out:], skipped + left_out
            ends = [through for _, through in found]
        else:
            shown = merged[:most]
            ends = [
                _end(start, events, through, sum(each[1] == number for each in shown))
                for number, (start, (events, through)) in enumerate(zip(starts, found, strict=True))
            ]
        return FeedPage(tuple(found[source][0][at] for _, source, at in shown), FeedPlace(*ends), skipped)

    async def wait_after(
        self, place: FeedPlace, most: int, name: str = "", *, seconds: float, only_newest: bool = False
    ) -> FeedPage:
        """`after`, as soon as there is something, or an empty page after so many seconds."""
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        deadline = loop.time() + seconds
        with self._lock:
            self._waiting.add((loop, came))
        self.watched.set()
        try:
            while True:
                came.clear()
                # A commit wakes while it holds the org's lock, so this reads what it committed, and not too early.
                page = await run_in_threadpool(self.after, place, most, name, only_newest=only_newest)
                place = page.next_after
                left = deadline - loop.time()
                if page.events or left <= 0 or self._stopped:
                    return page
                with suppress(TimeoutError):
                    await asyncio.wait_for(came.wait(), left)
        finally:
            with self._lock:
                self._waiting.discard((loop, came))

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for loop, came in waiting:
            with suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(came.set)


def _timed(source: int, events: Sequence[FeedEvent]) -> Iterator[tuple[int, int, int]]:
    """Yield for each event a time that never goes back, the source's number, and the event's place in it."""
    latest = 0
    for place, event in enumerate(events):
        latest = max(latest, event.at)
        yield latest, source, place


def _end(start: int, events: Sequence[FeedEvent], through: int, shown: int) -> int:
    """Return how far a source is read when the first `shown` of its events are."""
    if shown == len(events):
        return through
    return events[shown - 1].number if shown else start
