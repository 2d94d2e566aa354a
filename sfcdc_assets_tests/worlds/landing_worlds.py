"""Small worlds of landing: every short stream, read by two readers that break, die and commit in every order.

The program's own: `StreamProgress` (where a stream is resumed, and what comes again), `not_landed_yet` (what is left
where the other reader was faster), `completed_by` (which transaction is whole), `open_from`. In memory: the stream, the
commit, and the loop of `ChannelReader` around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import product

from sfcdc_assets.change_events.raw_event_rows import completed_by
from sfcdc_assets.streams.checkpoint import EARLIEST, StreamCheckpoint, not_landed_yet, open_from
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayPreset, ReplayStart
from sfcdc_assets.streams.resume import StreamProgress


@dataclass(frozen=True)
class Stream:
    """Events in order, each with the replay id and the transaction it belongs to."""

    events: tuple[DeliveredEvent, ...]
    transactions: tuple[str, ...]

    def ends(self, count: int) -> bool:
        """Return whether a transaction ends with the first `count` events."""
        return count == len(self.events) or not count or self.transactions[count] != self.transactions[count - 1]

    def begin(self, start: ReplayStart) -> int:
        """Return how many events come before those that a call is sent: the service resumes strictly after an id."""
        if start.preset is ReplayPreset.EARLIEST:
            return 0
        return 1 + max(n for n, event in enumerate(self.events) if event.replay_id == start.replay_id)


def streams(length: int) -> Iterator[Stream]:
    """Yield streams of so many events: each begins a new replay id or not, a new transaction or not."""
    for bits in product((False, True), repeat=2 * (length - 1)):
        groups, keys = [0], [0]
        for new_group, new_key in zip(bits[::2], bits[1::2], strict=True):
            groups.append(groups[-1] + new_group)
            keys.append(keys[-1] + new_key)
        events = (
            DeliveredEvent(f"e{number}", "s", b"p%d" % number, b"r%d" % group, number)
            for number, group in enumerate(groups)
        )
        yield Stream(tuple(events), tuple(f"t{key}" for key in keys))


@dataclass
class Reader:
    """What `ChannelReader` and its subscription remember."""

    before: StreamCheckpoint
    progress: StreamProgress
    at: int
    """Events of the stream before what the call is sent next."""
    waiting: list[DeliveredEvent] = field(default_factory=list)
    complete: bool = False

    def clone(self) -> Reader:
        """Return one that goes on by itself."""
        made, progress = copy(self), copy(self.progress)
        made.waiting = [*self.waiting]
        for name, value in vars(progress).items():
            if isinstance(value, list | dict):
                setattr(progress, name, copy(value))
        made.progress = progress
        return made


@dataclass
class World:
    """The channel's durable state and two readers of it."""

    stream: Stream
    log: tuple[DeliveredEvent, ...] = ()
    durable: StreamCheckpoint = field(default_factory=lambda: StreamCheckpoint("c", begun=EARLIEST, begun_at_ms=1))
    readers: dict[int, Reader] = field(default_factory=dict)
    published: int = 0
    """So many events were sent to some reader."""

    def clone(self) -> World:
        """Return one that goes on by itself."""
        return replace(self, readers={number: reader.clone() for number, reader in self.readers.items()})

    def opened(self, number: int) -> Reader:
        """Return a reader; it begins where the channel stands, if it has died or was closed."""
        if number not in self.readers:
            progress = StreamProgress(ReplayStart.EARLIEST, self.durable.resume)
            self.readers[number] = Reader(self.durable, progress, self.stream.begin(progress.resume()))
        return self.readers[number]

    def take(self, number: int, count: int) -> bool:
        """Take a response of so many events; False where there are not so many."""
        reader = self.opened(number)
        sent = self.stream.events[reader.at : reader.at + count]
        reader.at += len(sent)
        self.published = max(self.published, reader.at)
        reader.waiting += reader.progress.admit_all(sent)
        reader.complete = reader.complete and not sent
        return len(sent) == count

    def hear_nothing(self, number: int) -> bool:
        """Take an empty response after the settling time: all that was published so far has come. False in the middle
        of a transaction, or of a replay id: these are published together."""
        reader = self.opened(number)
        if (
            not reader.at
            or reader.at < self.published
            or not self.stream.ends(reader.at)
            or not self._ends_group(reader.at)
        ):
            return False
        reader.progress.nothing_more(self.stream.events[reader.at - 1].replay_id, reader.at)
        reader.complete = True
        return True

    def commit(self, number: int) -> bool:
        """Land what waits, unless the other reader was faster; False where there is nothing to commit."""
        reader = self.opened(number)
        before, events = reader.before, reader.waiting
        if not events and not (reader.complete and before.complete_position < before.position):
            return False
        if self.durable.position != before.position:
            left = not_landed_yet(events, before, self.durable)
            if left is None:
                del self.readers[number]
            else:
                reader.waiting, reader.before = list(left), self.durable
            return True
        before = replace(before, complete_position=max(before.complete_position, self.durable.complete_position))
        keys = [self.stream.transactions[int(event.event_id[1:])] for event in events]
        positions = [before.position + 1 + each for each in range(len(events))]
        resume = reader.progress.point
        self.log += tuple(events)
        last = before.position + len(events)
        self.durable = reader.before = replace(
            before,
            position=last,
            transaction_key=keys[-1] if keys else before.transaction_key,
            resume=resume,
            complete_position=last if reader.complete else completed_by(before, positions, keys),
            open_from=open_from(before, events, resume),
        )
        reader.waiting, reader.complete = [], False
        return True

    def break_call(self, number: int) -> bool:
        """Begin the call again, as a subscription does by itself."""
        reader = self.opened(number)
        reader.at = self.stream.begin(reader.progress.resume())
        return True

    def die(self, number: int) -> bool:
        """End the reader with all it holds; False where there is none."""
        return self.readers.pop(number, None) is not None

    def _ends_group(self, count: int) -> bool:
        events = self.stream.events
        return count == len(events) or events[count].replay_id != events[count - 1].replay_id


class LandingFails(AssertionError):
    """A channel is not landed as its stream is."""


def check(world: World) -> None:
    """The oracle: what is landed is the stream from its beginning, each event once, and what counts as complete ends a
    transaction and leaves out no more than the last one; the replay id that may be unfinished is known. Raises
    `LandingFails`."""
    stream, log, durable = world.stream, world.log, world.durable
    if log != stream.events[: len(log)] or durable.position != len(log):
        raise LandingFails(f"landed: {[event.event_id for event in log]}")
    if not stream.ends(durable.complete_position):
        raise LandingFails(f"complete up to {durable.complete_position} of {stream.transactions}")
    open_id = durable.resume.open_id
    first = next((n for n, event in enumerate(log, 1) if event.replay_id == open_id), 0)
    if durable.open_from != first:
        raise LandingFails(f"the group that may be unfinished begins at {first}, not {durable.open_from}")
    ended = max(count for count in range(len(log) + 1) if count == 0 or (count < len(log) and stream.ends(count)))
    if durable.complete_position < ended:
        raise LandingFails(f"{durable.complete_position} is complete, and {ended} was known to be")


STEPS = {
    "take 1": lambda world, number: world.take(number, 1),
    "take 2": lambda world, number: world.take(number, 2),
    "hear nothing": World.hear_nothing,
    "commit": World.commit,
    "break": World.break_call,
    "die": World.die,
}


def run(stream: Stream, steps: int, most: int | None = None) -> int:
    """Take every sequence of so many steps of two readers, of which the first one begins; return how many there were.

    After each sequence both readers read to the end, and all is landed. Raises `LandingFails` with the steps.
    """
    count = 0
    waiting: list[tuple[World, tuple[str, ...]]] = [(World(stream), ())]
    while waiting and (most is None or count < most):
        world, path = waiting.pop()
        if len(path) == steps:
            count += 1
            _finish(world, path)
            continue
        for number in (0, 1) if path else (0,):
            for name, step in STEPS.items():
                after = world.clone()
                if step(after, number):
                    _checked(after, (*path, f"{number} {name}"))
                    waiting.append((after, (*path, f"{number} {name}")))
    return count


def run_all(length: int, steps: int) -> int:
    """Run every stream of a length; return how many worlds there were. Raises `LandingFails`."""
    return sum(run(stream, steps) for stream in streams(length))


def _checked(world: World, path: tuple[str, ...]) -> None:
    try:
        check(world)
    except LandingFails as error:
        raise LandingFails(f"{error}\n{world.stream}\n" + "\n".join(path)) from None


def _finish(world: World, path: tuple[str, ...]) -> None:
    """Both readers read on until nothing is left."""
    for number in (0, 1, 0):
        for _ in range(4):
            while world.take(number, 1):
                pass
            world.hear_nothing(number)
            world.commit(number)
            _checked(world, (*path, f"{number} reads to the end"))
    if len(world.log) < len(world.stream.events) or world.durable.complete_position < len(world.log):
        raise LandingFails(f"not all is landed and complete: {world.durable}\n{world.stream}\n" + "\n".join(path))
