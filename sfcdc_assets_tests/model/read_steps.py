"""Steps of who reads the org (`org_reads`), of cuts (`consistent_cut`), and of a consumer of changes (`changes`)."""

from __future__ import annotations

from collections.abc import Iterator

from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.state import (
    UNTRUSTED,
    Bounds,
    Consumer,
    CutEntity,
    Read,
    Reader,
    World,
    events_of,
    org_after,
    part,
    position_of_events,
)
from sfcdc_assets_tests.model.table_steps import watermark_of

Steps = Iterator[tuple[str, World]]
IDLE, MARKED, READ = range(3)
"""Phases of a reader: its watermark is noted, the org has answered."""


def reader_steps(world: World, bounds: Bounds, missing: Rule | None) -> Steps:
    """A copy is begun, or a record is read back: watermark, answer, commit."""
    reader, landed = world.reader, len(world.channel.rows)
    if reader.phase == IDLE:
        for number, entity in enumerate(world.entities):
            watermark = watermark_of(entity)
            is_needed = watermark < 0 or entity.entity > watermark
            if (is_needed and landed >= entity.entity) or (world.copies and entity.tables.batch and number == 0):
                copies = world.copies if is_needed else world.copies - 1
                begun = Reader(MARKED, 1, number, landed)
                yield f"a copy of {number} is begun", world._replace(reader=begun, copies=copies)
            is_waited_for = any(not read.whole for read in entity.reads[entity.tables.taken :])
            is_landed = landed >= max(entity.tables.position, entity.record)
            if entity.record and entity.tables.batch and is_landed and not is_waited_for:
                begun = Reader(MARKED, 0, number, landed)
                yield f"a record of {number} is read back", world._replace(reader=begun)
        return
    if reader.phase == MARKED:
        mask = org_after(world.log, world.visible, reader.entity)
        if missing != Rule.NOT_EVERY_READ and _is_stale(world, reader, mask):
            mask = UNTRUSTED
        if mask != UNTRUSTED or reader.whole:  # a record is read again
            read = reader._replace(phase=READ, mask=mask, at=len(world.log))
            yield "the org answers", world._replace(reader=read)
    else:
        watermark = landed if missing == Rule.WATERMARK_FIRST else reader.watermark
        entity = world.entities[reader.entity]
        taken = entity._replace(reads=(*entity.reads, Read(reader.whole, watermark, reader.mask, reader.at)))
        entities = (taken, world.entities[1]) if reader.entity == 0 else (world.entities[0], taken)
        yield "a read is committed", world._replace(reader=Reader(), entities=entities)
    if world.crashes:
        yield "a reader dies", world._replace(reader=Reader(), crashes=world.crashes - 1)


def _is_stale(world: World, reader: Reader, mask: int) -> bool:
    """Whether the record was changed by an event before the watermark after what the read shows."""
    positions = position_of_events(world.channel, world.log, reader.entity, 0, reader.watermark)
    if not positions:
        return False
    last = events_of(world.log)[world.channel.rows[positions[-1] - 1]]
    return not mask >> last.transaction & 1


def cut_steps(world: World, bounds: Bounds, missing: Rule | None) -> Steps:
    """The tables are noted at the last complete position. Who does not stand there lags, and is marked; who has a row
    that was read later than the stream is known to be landed is in it as in the cut before, and is waited for first."""
    if not bounds.cuts:
        return
    position = world.channel.complete
    if position < world.cut_at or not all(each.tables.batch for each in world.entities):
        return
    found = []
    for number, entity in enumerate(world.entities):
        tables = entity.tables
        lags = _lags(world, number, position) and missing != Rule.CUT_STANDS
        is_ahead = tables.position > position or tables.read_at > world.channel.through
        if not lags and is_ahead and missing not in (Rule.CUT_WAITS_FOR_ROWS_AHEAD, Rule.CUT_STANDS):
            if not world.cut:
                return
            found.append(world.cut[number]._replace(lags=1))
        else:
            found.append(CutEntity(tables, part(tables, entity.history), int(lags)))
    cut = tuple(found)
    if (position, cut) != (world.cut_at, world.cut):
        yield "a cut is noted", world._replace(cut_at=position, cut=cut)


def _lags(world: World, number: int, position: int) -> bool:
    """Whether the next run has something to bring along."""
    entity = world.entities[number]
    return bool(
        entity.entity > watermark_of(entity)
        or len(entity.reads) > entity.tables.taken
        or position_of_events(world.channel, world.log, number, entity.tables.position, position)
    )


def consumer_steps(world: World, bounds: Bounds, missing: Rule | None) -> Steps:
    """A consumer asks what has changed in the first entity, up to the newest cut, and folds it."""
    if not bounds.consumer or not world.cut:
        return
    consumer, (tables, history, _) = world.consumer, world.cut[0]
    if tables.batch <= consumer.batch or not tables.row:
        return
    row, since = tables.row, consumer.batch
    reported = row.last_batch > since
    if missing == Rule.TOKEN_IS_A_BATCH:
        reported = row.begin > consumer.position or not since
    then, versions = row, history
    if tables.back_in > since and tables.kept:
        then, versions = tables.kept
    before = next((each.mask for each in versions if each.batch > since), then.mask)
    is_new = then.first_batch > since
    wrong = consumer.wrong or (reported and not is_new and before != consumer.mask)
    after = Consumer(tables.batch, world.cut_at, consumer.mask, consumer.doubt, int(wrong))
    if reported:
        after = after._replace(mask=row.mask, doubt=row.doubt)
    yield "a consumer asks", world._replace(consumer=after)
