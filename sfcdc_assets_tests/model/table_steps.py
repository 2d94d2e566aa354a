"""Steps of the processes that apply: what is new of an entity is found, and committed table by table (`apply`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.state import (
    MEMORY,
    UNTRUSTED,
    Bounds,
    Channel,
    Entity,
    Read,
    Row,
    Tables,
    Version,
    World,
    Writer,
    events_of,
    part,
    position_of_events,
)

Steps = Iterator[tuple[str, World]]
IDLE, FENCE, CLEAN, LEDGER, HISTORY, STATE, HEAL = range(7)
"""Phases of a writer: the commit that is its next."""
ORDER = {
    None: (LEDGER, HISTORY, STATE, HEAL),
    Rule.STATE_COMMITS_LAST: (LEDGER, STATE, HISTORY, HEAL),
    Rule.NOTED_BEFORE_MARKED: (HISTORY, STATE, LEDGER, HEAL),
}
"""The order of a batch's commits: the program's, and those of mutants."""


class Planned(NamedTuple):
    """What a batch comes to. `record`: position of a new entry about the record."""

    tables: Tables
    superseded: tuple[Version, ...]
    record: int


def watermark_of(entity: Entity, taken: int | None = None) -> int:
    """Return the watermark of the newest copy among the first reads; -1 before the first."""
    return max((read.watermark for read in entity.reads[:taken] if read.whole), default=-1)


@lru_cache(MEMORY)
def has_work(log: tuple[int, ...], channel: Channel, entity: Entity, number: int, missing: Rule | None) -> bool:
    """Return whether there is something to apply."""
    tables, watermark = entity.tables, watermark_of(entity)
    if not tables.batch and watermark < 0:
        return False
    blocked = _blocked(entity, watermark, missing)
    end = min(_complete(channel, missing), blocked - 1) if blocked else _complete(channel, missing)
    return bool(
        len(entity.reads) > tables.taken
        or (blocked and tables.suspected < blocked)
        or position_of_events(channel, log, number, tables.position, end)
    )


def _complete(channel: Channel, missing: Rule | None) -> int:
    return len(channel.rows) if missing == Rule.APPLY_COMPLETE else channel.complete


def _blocked(entity: Entity, watermark: int, missing: Rule | None) -> int:
    if missing == Rule.BLOCKED_BY_SUSPECT:
        return 0
    return entity.entity if entity.entity > watermark else 0


@lru_cache(MEMORY)
def planned(log: tuple[int, ...], channel: Channel, entity: Entity, number: int, missing: Rule | None) -> Planned:
    """Return what a batch of an entity comes to, of all that is new."""
    tables = entity.tables
    new = entity.reads[tables.taken :]
    copies = [read for read in new if read.whole]
    watermark = watermark_of(entity)
    blocked = _blocked(entity, watermark, missing)
    end = max(_complete(channel, missing), tables.position, watermark)
    end = max(tables.position, min(end, blocked - 1)) if blocked else end
    batch, row, superseded = tables.batch + 1, tables.row, list[Version]()
    after = tables._replace(
        position=end,
        batch=batch,
        taken=len(entity.reads),
        read_at=max([tables.read_at, *(read.at for read in new)]),
        suspected=max(tables.suspected, blocked),
    )
    goes_back = bool(copies and row) and copies[0].watermark < tables.position
    if row and goes_back and missing != Rule.GOES_BACK:
        to = copies[0].watermark
        kept = (row, part(tables, entity.history)) if missing != Rule.GONE_BACK_IS_KEPT else ()
        after = after._replace(back_in=batch, back_to=to, kept=kept)
        row = _row_at(tables, entity.history, to)
        # Records that were read back since come on top again.
        again = [read for read in entity.reads[: tables.taken] if not read.whole and read.watermark >= to]
        new = (*again, *new)
    elif goes_back:
        row = ()
    start = min([tables.position, *(read.watermark for read in new)])
    if not row and copies:
        start = tables.position if goes_back and missing == Rule.GOES_BACK else copies[0].watermark
    positions = position_of_events(channel, log, number, max(0, start), end)
    record = 0
    for place, read in _in_order(positions, new):
        counts_later = read is not None and missing == Rule.READ_STANDS_AT_WATERMARK
        at = max(place, row.stands) if row and counts_later else place
        if row and (at < row.stands or (read is None and at == row.stands)):
            continue  # it is in the row
        if read is None:
            event = events_of(log)[channel.rows[at - 1]]
            row = row or Row(0, at, at, 0, batch, batch)
            mask, doubt = (row.mask | 1 << event.transaction, row.doubt) if event.reported else (row.mask, 1)
            record = record if event.reported else at
        elif read.mask == UNTRUSTED:
            row = row or Row(0, at, at, 0, batch, batch)
            mask, doubt, record = row.mask, 1, at
        else:
            row = row or Row(read.mask, at, at, 0, batch, batch)
            mask, doubt = read.mask, 0
        if mask != row.mask:
            superseded.append(Version(row.mask, row.begin, at, batch))
            row = row._replace(mask=mask, begin=at)
        row = row._replace(stands=at, doubt=doubt, last_batch=batch)
    if row and blocked and tables.suspected < blocked:
        row = row._replace(doubt=1, last_batch=batch)
    if row and goes_back:
        row = row._replace(last_batch=batch)
    return Planned(after._replace(row=row), tuple(superseded), record)


def _in_order(positions: Sequence[int], reads: Sequence[Read]) -> list[tuple[int, Read | None]]:
    """Events and reads in the order of the stream: a read stands after the event at its watermark."""
    found = [(at, 0, number, None) for number, at in enumerate(positions)]
    of_reads = [(read.watermark, 1, number, read) for number, read in enumerate(reads)]
    return [(at, read) for at, _, _, read in sorted([*found, *of_reads], key=lambda each: each[:3])]


def _row_at(tables: Tables, history: Sequence[Version], to: int) -> Row | tuple[()]:
    """The version that was valid at a position, as the row of then."""
    row = tables.row
    if not row or row.begin <= to:
        return row and row._replace(stands=to, doubt=0)
    for each in part(tables, history):
        if each.begin <= to < each.end:
            return Row(each.mask, each.begin, to, 0, row.first_batch, row.last_batch)
    return ()


def writer_steps(world: World, bounds: Bounds, missing: Rule | None) -> Steps:
    """What each writer may do next."""
    for number, writer in enumerate(world.writers):
        if number and writer == world.writers[number - 1]:
            continue
        if writer.phase == IDLE:
            for entity, of in enumerate(world.entities):
                if has_work(world.log, world.channel, of, entity, missing):
                    yield f"a writer plans {entity}", _with(world, number, _begun(world, entity, missing))
        else:
            yield from _commit(world, number, writer, missing)
            if world.crashes:
                died = _with(world, number, Writer())
                yield "a writer dies", died._replace(crashes=world.crashes - 1)


def _begun(world: World, number: int, missing: Rule | None) -> Writer:
    """A writer that has opened the entity's tables."""
    entity = world.entities[number]
    plan = planned(world.log, world.channel, entity, number, missing)
    left = entity.appended > entity.tables.batch or any(
        each not in part(entity.tables, entity.history) for each in entity.history
    )
    phase = ORDER.get(missing, ORDER[None])[0]
    if left and missing != Rule.LEFTOVERS_ARE_REMOVED:
        phase = CLEAN if missing == Rule.WRITERS_ARE_FENCED else FENCE
    return Writer(phase, number, 1, 1, *plan)


def _next(phase: int, missing: Rule | None) -> int:
    order = ORDER.get(missing, ORDER[None])
    if phase in (FENCE, CLEAN):
        return CLEAN if phase == FENCE else order[0]
    return order[order.index(phase) + 1] if phase != order[-1] else IDLE


def _with(
    world: World,
    number: int,
    writer: Writer,
    entity: Entity | None = None,
    *,
    state: bool = False,
    history: bool = False,
) -> World:
    """The world with another writer and what it has committed: other writers of the entity are refused from then on."""
    mine = world.writers[number].entity
    others = [each for place, each in enumerate(world.writers) if place != number]
    if writer.phase == IDLE:
        writer = Writer()
    if entity is None:
        return world._replace(writers=tuple(sorted((*others, writer))))
    if state or history:
        others = [
            each._replace(
                state_fresh=0 if state else each.state_fresh, history_fresh=0 if history else each.history_fresh
            )
            if each.phase and each.entity == mine
            else each
            for each in others
        ]
    entities = (entity, world.entities[1]) if mine == 0 else (world.entities[0], entity)
    return world._replace(writers=tuple(sorted((*others, writer))), entities=entities)


def _commit(world: World, number: int, writer: Writer, missing: Rule | None) -> Steps:
    """The writer's next commit."""
    entity, phase = world.entities[writer.entity], writer.phase
    name = f"of {writer.entity}"
    is_of_state, is_of_history = phase in (FENCE, STATE), phase in (CLEAN, HISTORY)
    fresh = (writer.state_fresh or not is_of_state) and (writer.history_fresh or not is_of_history)
    if not fresh and missing != Rule.BATCH_IS_REFUSED:
        yield f"a writer's commit {name} is refused", _with(world, number, Writer())
        return
    after = writer._replace(phase=_next(phase, missing))
    if after.phase == HEAL and not (entity.record or entity.entity):
        after = after._replace(phase=IDLE)
    if phase == FENCE:
        yield f"a writer fences {name}", _with(world, number, after, entity, state=True)
    elif phase == CLEAN:
        kept = part(entity.tables, entity.history)
        clean = entity._replace(history=kept, appended=entity.tables.batch)
        yield f"a writer cleans history {name}", _with(world, number, after, clean, history=True)
    elif phase == LEDGER:
        noted = entity._replace(record=max(entity.record, writer.record))
        yield f"a writer notes suspects {name}", _with(world, number, after, noted)
    elif phase == HISTORY:
        assert writer.after
        grown = entity._replace(
            history=tuple(sorted((*entity.history, *writer.superseded))), appended=writer.after.batch
        )
        yield f"a writer appends to history {name}", _with(world, number, after, grown, history=True)
    elif phase == STATE:
        assert writer.after
        committed = entity._replace(tables=writer.after)
        yield f"a writer commits current_state {name}", _with(world, number, after, committed, state=True)
    else:
        yield f"a writer heals {name}", _with(world, number, Writer(), _healed(entity, writer))


def _healed(entity: Entity, writer: Writer) -> Entity:
    """The entity without the entries that what was committed answers."""
    assert writer.after
    row = writer.after.row
    answered = row and not row.doubt and row.stands >= entity.record
    watermark = watermark_of(entity, writer.after.taken)
    return entity._replace(
        record=0 if answered else entity.record, entity=0 if entity.entity <= watermark else entity.entity
    )
