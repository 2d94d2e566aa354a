"""What holds in every state of the model, named after the guarantees of the program; and what holds when nothing is
left to do."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from sfcdc_assets_tests.model.state import (
    BREAK,
    MEMORY,
    Bounds,
    Channel,
    CutEntity,
    Entity,
    World,
    events_of,
    is_cut_through,
    org_after,
    part,
    position_of_events,
)


def violated(world: World, before: World, bounds: Bounds) -> str | None:
    """Return the name of a guarantee that does not hold; None where all do, as they did in the state before."""
    if (
        world.entities is before.entities
        and world.channel is before.channel
        and world.log is before.log
        and world.cut is before.cut
        and world.consumer is before.consumer
    ):
        return None  # nothing has changed but what is in the memory of a process
    found = _of_channel(world.log, world.channel, world.earliest, bounds.losses - world.losses)
    if found is not None:
        return found
    for number, entity in enumerate(world.entities):
        found = _of_entity(world.log, world.channel, entity, number, bounds.reads)
        if found is not None:
            return found
    if world.cut and not _is_one_moment(world.log, world.cut):
        return "whole transactions"
    if world.cut and _is_reported_otherwise(world):
        return "changes are reported once"
    return None


@lru_cache(MEMORY)
def _of_channel(log: tuple[int, ...], channel: Channel, earliest: int, losses: int) -> str | None:
    rows = [each for each in channel.rows if each != BREAK]
    if len(set(rows)) < len(rows):
        return "once"
    if any(first > second for first, second in pairwise(rows)):
        return "our own order"
    missing = set(range(channel.resume)) - set(rows)
    if losses and any(BREAK not in channel.rows or each >= earliest for each in missing):
        return "a lost checkpoint is a planned event"
    if missing:
        return None if losses else "landed before moved"
    return "whole transactions" if _is_within(log, channel, channel.complete) else None


def _is_within(log: tuple[int, ...], channel: Channel, position: int) -> bool:
    """Whether a position lies within a transaction; a lost checkpoint ends what is before it."""
    rows = channel.rows
    if not position or rows[position - 1] == BREAK or rows[position : position + 1] == (BREAK,):
        return False
    return is_cut_through(log, rows[position - 1] + 1, by_group=False)


@lru_cache(MEMORY)
def _of_entity(log: tuple[int, ...], channel: Channel, entity: Entity, number: int, reads: bool) -> str | None:
    tables = entity.tables
    row = tables.row
    if not row:
        return None
    chain = sorted((each.begin, each.end) for each in part(tables, entity.history))
    ends = [each.end for each in sorted(part(tables, entity.history), key=lambda each: (each.begin, each.end))]
    begins = [*(begin for begin, _ in chain[1:]), row.begin]
    if chain and ends != begins:
        return "history is whole"
    begun_in_the_middle = any(read.whole and read.watermark == tables.position for read in entity.reads)
    if not begun_in_the_middle and _is_within(log, channel, tables.position):
        return "whole transactions"
    if row.doubt:
        return None if entity.record or entity.entity else "suspects are isolated"
    known = 0
    for position in position_of_events(channel, log, number, 0, min(tables.position, len(channel.rows))):
        known |= 1 << events_of(log)[channel.rows[position - 1]].transaction
    if known & ~row.mask:
        return "reads are pinned to the stream"
    if row.mask not in {org_after(log, after, number) for after in range(len(log) + 1)}:
        return "nothing lost"
    if not reads and BREAK in channel.rows and not entity.entity:
        return "a lost checkpoint is a planned event"
    return None


@lru_cache(MEMORY)
def _is_one_moment(log: tuple[int, ...], cut: tuple[CutEntity, ...]) -> bool:
    """Whether the entities that do not lag are the org after one transaction; a marked row claims nothing."""
    rows = [(number, each.tables.row) for number, each in enumerate(cut) if not each.lags]
    masks = [(number, row.mask) for number, row in rows if row and not row.doubt]
    return any(all(org_after(log, after, number) == mask for number, mask in masks) for after in range(len(log) + 1))


def _is_reported_otherwise(world: World) -> bool:
    consumer, tables = world.consumer, world.cut[0].tables
    if consumer.wrong:
        return True
    row = tables.row
    return consumer.batch == tables.batch and bool(row) and (consumer.mask, consumer.doubt) != (row.mask, row.doubt)


def unfinished(world: World, bounds: Bounds) -> str | None:
    """Return what is not done in a state after which nothing can happen; None where all is."""
    channel = world.channel
    rows = [each for each in channel.rows if each != BREAK]
    if world.published and rows[-1:] != [world.published - 1] and world.earliest < world.published:
        return "the stream is not landed"
    if channel.complete < len(channel.rows):
        return "the last transaction is not complete"
    for number, entity in enumerate(world.entities):
        if not bounds.writers or (entity.entity and not bounds.reads):
            continue
        row = entity.tables.row
        if not row or row.doubt or row.mask != org_after(world.log, len(world.log), number):
            return f"entity {number} is not the org"
        if world.cut_at == channel.complete and bounds.cuts and world.cut[number].tables.row != row:
            return "the newest cut is not the tables"
    if bounds.cuts and (not world.cut or any(each.lags for each in world.cut)):
        return "the newest cut lags"
    if bounds.consumer and world.consumer.batch != world.cut[0].tables.batch:
        return "a consumer has not heard of all"
    return None
