"""The steps of a scenario with the events that they raise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sfcdc_assets.emulator.events.event_feed import EventFeed
from sfcdc_assets.emulator.events.feed_sources import FeedEvent, FeedSource
from sfcdc_assets.emulator.scenarios.player import StepPlayed
from sfcdc_assets.emulator.scenarios.scenario import Scenario
from sfcdc_assets.emulator.setup.channels import CHANGE_EVENTS

_PAGE = 500


@dataclass(frozen=True)
class WatchedStep:
    """A step, and the events of its transactions as a person reads them, each with its channel; others' events are not
    among them."""

    played: StepPlayed
    events: tuple[tuple[str, FeedEvent], ...]


def watched(steps: Iterable[StepPlayed], feed: EventFeed, scenario: Scenario) -> Iterator[WatchedStep]:
    """Each step as soon as it has happened."""
    after = feed.newest(1).next_after.bus
    for played in steps:
        commits = {each.commit_number for each in played.transactions}
        events = [(CHANGE_EVENTS, each) for each in _events(feed.on_channel(), after)]
        for channel in scenario.channels:
            events += [(channel, each) for each in _events(feed.on_channel(channel), after)]
        after = max(after, *(each.number for _, each in events), 0)
        yield WatchedStep(played, tuple(pair for pair in events if pair[1].header.get("commitNumber") in commits))


def _events(source: FeedSource, after: int) -> Iterator[FeedEvent]:
    while True:
        events, after = source.after(after, _PAGE, "")
        yield from events
        if not events:
            return
