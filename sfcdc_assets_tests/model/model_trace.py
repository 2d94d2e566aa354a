"""The commits of the model, as the program's are followed: what a step of it has made durable."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sfcdc_assets_tests.model.checker import steps
from sfcdc_assets_tests.model.relation import (
    Appended,
    Commit,
    Committed,
    CutNoted,
    Event,
    Followed,
    Landed,
    ReadBegun,
    ReadDone,
    Suspected,
)
from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.state import BREAK, Bounds, Entity, Tables, World, events_of, first

CHANNEL = "/data/ChangeEvents"
NAMES = ("0", "1")


class ModelTrace:
    """Follows a walk of the model. Versions of tables are their numbers of commits."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._states: dict[tuple[str, Tables], int] = {}
        self._histories: dict[tuple[str, object], int] = {}

    def begin(self) -> Iterator[Commit]:
        """Yield what was durable before the first step."""
        for name, entity in zip(NAMES, self._world.entities, strict=True):
            if entity.tables.batch:
                yield ReadBegun(name, CHANNEL, 1, 0)
                yield ReadDone(name, CHANNEL, 1, 0, whole=True)
                yield self._appended(name, entity)
                yield self._committed(name, entity)

    def step(self, after: World) -> Iterator[Commit]:
        """Yield what a step has committed."""
        before, self._world = self._world, after
        if after.reader.phase == 1 and after.reader.whole and before.reader.phase == 0:
            number = sum(read.whole for read in after.entities[after.reader.entity].reads) + 1
            yield ReadBegun(NAMES[after.reader.entity], CHANNEL, number, after.reader.watermark)
        for name, was, entity in zip(NAMES, before.entities, after.entities, strict=True):
            if entity is was:
                continue
            if entity.entity > was.entity:
                yield Suspected(name, CHANNEL, (entity.entity,))
            if len(entity.reads) > len(was.reads):
                read = entity.reads[-1]
                number = sum(each.whole == read.whole for each in entity.reads)
                yield ReadDone(name, CHANNEL, number, read.watermark, whole=bool(read.whole))
            if (entity.history, entity.appended) != (was.history, was.appended):
                yield self._appended(name, entity)
            if entity.tables != was.tables:
                yield self._committed(name, entity)
        if before.channel != after.channel:
            yield from self._landed(before, after)
        if after.cut != before.cut or after.cut_at != before.cut_at:
            versions = {
                name: (self._states[name, each.tables], self._histories[name, each.history])
                for name, each in zip(NAMES, after.cut, strict=True)
                if (name, each.history) in self._histories
            }
            lagging = frozenset(name for name, each in zip(NAMES, after.cut, strict=True) if each.lags)
            yield CutNoted(CHANNEL, after.cut_at, versions, lagging)

    @staticmethod
    def _landed(before: World, after: World) -> Iterator[Commit]:
        channel, events = after.channel, events_of(after.log)
        was, rows = before.channel.rows, channel.rows
        if (was, before.channel.complete, before.channel.resume) == (rows, channel.complete, channel.resume):
            return
        new = {
            at: Event(of.group, of.transaction, NAMES[of.entity], rows[at - 1])
            for at in range(len(was) + 1, len(rows) + 1)
            if rows[at - 1] != BREAK
            for of in (events[rows[at - 1]],)
        }
        resume = events[channel.resume - 1].group if channel.resume else None
        is_break = len(rows) > len(was) and rows[-1] == BREAK
        yield Landed(CHANNEL, len(rows), channel.complete, resume, channel.open_from, new, is_break=is_break)

    def _appended(self, name: str, entity: Entity) -> Appended:
        version = len(self._histories)
        self._histories[name, entity.history] = version
        return Appended(name, entity.appended, version)

    def _committed(self, name: str, entity: Entity) -> Committed:
        tables = entity.tables
        reads = entity.reads[: tables.taken]
        version = self._states.setdefault((name, tables), len(self._states))
        copies = sum(read.whole for read in reads)
        return Committed(
            name,
            CHANNEL,
            version,
            tables.position,
            tables.batch,
            copies,
            len(reads) - copies,
            tables.back_in,
            tables.back_to,
        )


def walk(bounds: Bounds, seed: int, missing: Rule | None = None) -> Followed:
    """Follow one random walk of the model to its end. Raises `NotAllowed`."""
    dice, world, followed = Random(seed), first(bounds), Followed()
    trace = ModelTrace(world)
    followed.take_all(trace.begin())
    while True:
        found = list(steps(world, bounds, missing))
        if not found:
            return followed
        world = dice.choice(found)[1]
        followed.take_all(trace.step(world))
