"""Where a subscription resumes, and which events it then brings a second time.

Several events may share one replay id (those into which one event of many records is taken apart), and the service
resumes strictly after an id. No silence, however long, proves that all events of the last id have come. So the resume
point stays before that group until an event with another id, or an empty response, shows that it is whole. What is
delivered again after a resume is recognised by its id and contents.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.replay import ReplayStart


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
    """How far one reader has come in one stream. Each event is admitted once, over any number of interrupted calls."""

    def __init__(self, begun: ReplayStart, point: ResumePoint | None = None) -> None:
        """`begun`: where the stream was begun when nothing was known of it."""
        self._begun = begun
        self._point = point or ResumePoint()
        self._open_marks = list(self._point.open_marks)
        self._open_at_ms: int | None = None
        self._again: Counter[str] = Counter()

    @property
    def point(self) -> ResumePoint:
        """The resume point after all that was admitted."""
        return replace(self._point, open_marks=tuple(self._open_marks))

    def resume(self) -> ReplayStart:
        """Where to start the next call; events of the open group that come again with it are not admitted."""
        self._again = Counter(self._open_marks)
        return self._begun if self._point.replay_id is None else ReplayStart.after(self._point.replay_id)

    def admit(self, event: DeliveredEvent) -> bool:
        """Take note of an event; False when it was admitted before."""
        if event.replay_id != self._point.open_id:
            self._open(event)
        mark = event.mark
        if self._again[mark] > 0:
            self._again[mark] -= 1
            return False
        self._open_marks.append(mark)
        self._open_at_ms = event.received_at_ms
        return True

    def nothing_more(self, latest_replay_id: bytes, now_ms: int) -> None:
        """An empty response: the open group is whole, and the stream can be resumed after the response's id."""
        complete = latest_replay_id or self._point.open_id or self._point.replay_id
        self._point = ResumePoint(complete or None, now_ms)
        self._open_marks, self._again = [], Counter()

    def _open(self, event: DeliveredEvent) -> None:
        point = self._point
        if point.open_id is not None:
            known_at = point.known_at_ms if self._open_at_ms is None else self._open_at_ms
            point = ResumePoint(point.open_id, known_at)
        elif point.replay_id is None and self._begun == ReplayStart.LATEST:
            # Nothing before the first event has an id. Beginning at LATEST again would lose all since then; after the
            # first group only siblings can be missed, and reads of the org with a later watermark show what they did.
            point = ResumePoint(event.replay_id, event.received_at_ms)
        self._point = replace(point, open_id=event.replay_id)
        self._open_marks, self._again = [], Counter()
