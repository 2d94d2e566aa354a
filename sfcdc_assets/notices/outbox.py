"""What was noticed and what is still to be sent, as one value: a look at the tables goes in, and each subscriber is
called with what is new to it, once.

It is kept as a note in the warehouse (`kept_outbox`), written before anything is sent and after each call that went
well. So nothing is sent twice but for what was being sent when a process died, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sfcdc_assets.notices.notice import Notice, Subscriber
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.doubling import doubled
from sfcdc_assets.settings.notice_kinds import NoticeKind

AT_ONCE = 100
"""Notices in one call."""
MOST_WAITING = 1_000
"""Notices of a kind that wait for one subscriber; of more than that their number is reported."""
FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 3_600_000

Mark = str | int
Marks = Mapping[str, Mark]
"""By entity, how far its table was looked at."""

ENDINGS: Mapping[NoticeKind, str] = MappingProxyType(
    {
        NoticeKind.LATE: "has caught up.",
        NoticeKind.OLD_SUSPECTS: "what was suspect for long was read back.",
        NoticeKind.REFUSED_READS: "reads of the org are applied again.",
    }
)
"""Kinds of which the end is a notice too, and what it says."""


@dataclass(frozen=True)
class Found:
    """What a look at the tables found of one kind: what holds now, each by its key (`standing`), what happened since
    the marks of the look before (`news`), and the marks for the next one. `known`: keys of what holds and is no
    news."""

    standing: tuple[Notice, ...] = ()
    news: tuple[Notice, ...] = ()
    marks: Marks | None = None
    known: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Queue:
    """What waits for a subscriber, of one kind: after `tries` calls in vain, the last at `tried_ms`. `left_out`: how
    many more there were."""

    notices: tuple[Notice, ...] = ()
    tries: int = 0
    tried_ms: int = 0
    left_out: int = 0

    @property
    def due_ms(self) -> int:
        """From when on (epoch ms) the subscriber is called: at once, then after pauses that double up to an hour."""
        if not self.tries:
            return 0
        return self.tried_ms + int(doubled(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, self.tries))

    def added(self, notices: Sequence[Notice]) -> Queue:
        """Return the queue with these at its end, as far as there is room."""
        room = max(0, MOST_WAITING - len(self.notices))
        left_out = self.left_out + max(0, len(notices) - room)
        return replace(self, notices=(*self.notices, *notices[:room]), left_out=left_out)


@dataclass(frozen=True)
class Outbox:
    """`seen`: by kind, what stood at the last look, by its key. `marks`: by kind. `queues`: by subscriber and kind."""

    seen: Mapping[NoticeKind, Mapping[str, Notice]] = field(default_factory=dict)
    marks: Mapping[NoticeKind, Marks] = field(default_factory=dict)
    queues: Mapping[str, Mapping[NoticeKind, Queue]] = field(default_factory=dict)


def with_looks(outbox: Outbox, looks: Mapping[NoticeKind, Found], subscribers: Iterable[str], now_ms: int) -> Outbox:
    """Return the outbox after these looks: what is new of each kind waits for every subscriber. Kinds that are not
    among the looks, because looking failed, stay as they were."""
    seen, marks = dict(outbox.seen), dict(outbox.marks)
    fresh: dict[NoticeKind, list[Notice]] = {}
    for kind, look in looks.items():
        before = seen.get(kind, {})
        standing = {notice.key: notice for notice in look.standing}
        fresh[kind] = [notice for key, notice in standing.items() if key not in {*before, *look.known}]
        if kind in ENDINGS:
            fresh[kind] += [_end(notice, now_ms) for key, notice in before.items() if key not in standing]
        fresh[kind] += look.news
        # What holds is kept as it was first seen, so that nothing is written while nothing changes.
        seen[kind] = {key: before.get(key, notice) for key, notice in standing.items()}
        if look.marks is not None:
            marks[kind] = look.marks
    queues = {
        name: {
            kind: outbox.queues.get(name, {}).get(kind, Queue()).added(fresh.get(kind, []))
            for kind in {*outbox.queues.get(name, {}), *looks}
        }
        for name in subscribers
    }
    return Outbox(seen, marks, queues)


def of_kinds(outbox: Outbox, kinds: Iterable[NoticeKind]) -> Outbox:
    """Return the outbox without what it has of other kinds: nobody wants them any more, and what they were looked at
    before says nothing when they are wanted again."""
    wanted = frozenset(kinds)
    return Outbox(
        {kind: each for kind, each in outbox.seen.items() if kind in wanted},
        {kind: each for kind, each in outbox.marks.items() if kind in wanted},
        {
            name: {kind: queue for kind, queue in of_kind.items() if kind in wanted}
            for name, of_kind in outbox.queues.items()
        },
    )


def sent(
    outbox: Outbox,
    subscribers: Mapping[str, Subscriber],
    now_ms: int,
    keep: Callable[[Outbox], object],
    may_go_on: Callable[[], bool] = lambda: True,
) -> tuple[Outbox, dict[str, Exception]]:
    """Call each subscriber with what is due, some notices of one kind at a time, and `keep` the outbox after each call.

    Returns it and, by subscriber, what the last call in vain raised: its kind waits, the others go on. Nothing more is
    begun once `may_go_on` says no.
    """
    failed: dict[str, Exception] = {}
    for name, subscriber in subscribers.items():
        for kind in sorted(outbox.queues.get(name, {})):
            while may_go_on() and (queue := outbox.queues[name][kind]).notices and queue.due_ms <= now_ms:
                now, later = queue.notices[:AT_ONCE], queue.notices[AT_ONCE:]
                of_call = now if later or not queue.left_out else (*now, _left_out(now[-1], queue.left_out))
                outcome = outcome_of(subscriber, of_call)
                if isinstance(outcome, Exception):
                    failed[name] = outcome
                    queue = replace(queue, tries=queue.tries + 1, tried_ms=now_ms)
                else:
                    queue = Queue(later, left_out=queue.left_out if later else 0)
                outbox = replace(outbox, queues={**outbox.queues, name: {**outbox.queues[name], kind: queue}})
                keep(outbox)
    return outbox, failed


def _end(notice: Notice, now_ms: int) -> Notice:
    reason = ENDINGS[notice.kind]
    return replace(notice, reason=reason, remedy="", position=None, at_ms=now_ms, is_end=True)


def _left_out(last: Notice, count: int) -> Notice:
    reason = f"{count:,} more notices of this kind came while this subscriber could not be reached."
    return Notice(last.kind, "left out", reason, "`sfcdc status` says how all stands.", at_ms=last.at_ms, org=last.org)
