"""Where a subscription resumes, and which events it then brings a second time.

Several events may share one replay id (those into which one event of many records is taken apart), and the service
resumes strictly after an id. No silence, however long, proves that all events of the last id have come. So the resume
point stays before that group until an event with another id, or an empty response, shows that it is whole. What is
delivered again after a resume is recognised by its id and contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayPreset, ReplayStart

_MOST_UNMARKED = 100
"""Events that are held on to until their marks are made."""


@dataclass(frozen=True)
class ResumePoint:
    """What has to be remembered of how far a stream was read.

    `replay_id`: everything up to it was taken; None while no id is known to be complete, so the stream is begun again
    where it was begun. `known_at_ms`: when it was taken or told, by our clock (epoch ms, UTC); ids are good for 72 h.
    `open_id`: the replay id of the last group, perhaps unfinished; `open_marks`: its events that were taken already.
    """

    replay_id: bytes | None = None
    known_at_ms: int | None = None
    open_id: bytes | None = None
    open_marks: tuple[str, ...] = ()


class StreamProgress:
    """How far one reader has come in one stream. Each event is admitted once, over any number of interrupted calls.

    Most replay ids have one event, and are over before anybody asks how far the stream was read: what an event leaves
    behind is worked out only when it is asked for.
    """

    def __init__(self, begun: ReplayStart, point: ResumePoint | None = None) -> None:
        """`begun`: where the stream was begun when nothing was known of it."""
        point = point or ResumePoint()
        self._begun = begun
        self._is_from_latest = begun.preset is ReplayPreset.LATEST
        self._replay_id, self._known_at_ms = point.replay_id, point.known_at_ms
        self._open_id = point.open_id
        self._open_marks = list(point.open_marks)
        self._unmarked: list[DeliveredEvent] = []
        """The last events of the open group, whose marks are still to be made."""
        self._open_at_ms: int | None = None
        self._again: Counter[str] = Counter()

    @property
    def point(self) -> ResumePoint:
        """The resume point after all that was admitted."""
        self._mark()
        return ResumePoint(self._replay_id, self._known_at_ms, self._open_id, tuple(self._open_marks))

    def ends_at(self, point: ResumePoint) -> bool:
        """Return whether nothing was admitted beyond a point, which may take the open group for whole: events that have
        a replay id each are landed so."""
        latest = self.point
        end = latest.open_id or latest.replay_id
        return point == latest or (point.open_id is None and point.replay_id == end)

    def resume(self) -> ReplayStart:
        """Return where to start the next call; events of the open group that come again with it are not admitted."""
        self._mark()
        self._again = Counter(self._open_marks)
        if self._replay_id is not None:
            return ReplayStart.after(self._replay_id)
        start = self._begun
        if start.only_once:
            self._begun = ReplayStart.EARLIEST
        return start

    def admit(self, event: DeliveredEvent) -> bool:
        """Take note of an event; False when it was admitted before."""
        if event.replay_id != self._open_id:
            self._open(event)
        elif self._again:
            mark = event.mark
            if self._again[mark] > 0:
                self._again[mark] -= 1
                return False
        self._unmarked.append(event)
        if len(self._unmarked) >= _MOST_UNMARKED:
            self._mark()
        self._open_at_ms = event.received_at_ms
        return True

    def admit_all(self, events: Sequence[DeliveredEvent]) -> Sequence[DeliveredEvent]:
        """Take note of the events of one response; those that were not admitted before."""
        count = len(events)
        begin = 0
        again: set[int] = set()
        while begin < count and self._open_id in (None, events[begin].replay_id):
            if not self.admit(events[begin]):
                again.add(begin)
            begin += 1
        if begin < count:
            # Of all the groups that follow only the last one may be unfinished, and none of them came before.
            last, end = events[-1].replay_id, count - 1
            while end > begin and events[end - 1].replay_id == last:
                end -= 1
            self.admit(events[begin])
            if end > begin:
                before = events[end - 1]
                self._open_id, self._open_at_ms = before.replay_id, before.received_at_ms
            for event in events[max(end, begin + 1) :]:
                self.admit(event)
        return [event for number, event in enumerate(events) if number not in again] if again else events

    def nothing_more(self, latest_replay_id: bytes, now_ms: int) -> None:
        """Note an empty response: the open group is whole, and the stream can be resumed after the response's id."""
        self._replay_id = latest_replay_id or self._open_id or self._replay_id or None
        self._known_at_ms = now_ms
        self._open_id = None
        self._nothing_open()

    def _open(self, event: DeliveredEvent) -> None:
        if self._open_id:
            self._replay_id = self._open_id
            self._known_at_ms = self._known_at_ms if self._open_at_ms is None else self._open_at_ms
        elif self._replay_id is None and self._is_from_latest and event.replay_id:
            # Nothing before the first event has an id. Beginning at LATEST again would lose all since then; after the
            # first group only siblings can be missed, and reads of the org with a later watermark show what they did.
            self._replay_id, self._known_at_ms = event.replay_id, event.received_at_ms
        self._open_id = event.replay_id
        self._nothing_open()

    def _nothing_open(self) -> None:
        self._open_marks.clear()
        self._unmarked.clear()
        self._again.clear()

    def _mark(self) -> None:
        self._open_marks += [event.mark for event in self._unmarked]
        self._unmarked.clear()
