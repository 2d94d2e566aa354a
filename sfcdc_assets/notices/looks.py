"""What there is to notice in the tables: a look for each kind, each by itself, so that one which fails keeps no other
from being reported.

Reads logs, and the rows of what is open, waits or is new alone: most entities cost no more than a look at their logs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter, itemgetter
from types import MappingProxyType

import pyarrow as pa

from sfcdc_assets.entities.freshness import lags
from sfcdc_assets.entities.refused_reads import refused_reads, sentences
from sfcdc_assets.entities.unpolled_objects import unpolled_objects
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, gap_reconciliation
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.gap_reconciliation import OpenSuspect, open_suspects
from sfcdc_assets.lake.tables.lost_checkpoints import KnownLoss, known_losses
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.notices.notice import Notice
from sfcdc_assets.notices.outbox import Look, Mark, Outbox
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.schema_evolution.schema_audit import columns_before
from sfcdc_assets.schema_evolution.schema_changes import column_type, is_retired, schema_changes
from sfcdc_assets.settings.notice_kinds import NoticeKind
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.status.staleness import unread_channels
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.suspect_behaviour import REFUSED_READS

LONG_SUSPECT_MS = 3_600_000
"""How long a record may be suspect before that is noticed."""
SEPARATOR = "\n"
"""Between what a mark consists of."""


def look_for(kind: NoticeKind, warehouse: Warehouse, settings: Settings, before: Outbox, now_ms: int) -> Look | None:
    """Return what there is of a kind beside what was known before; None for one that the tables do not tell of
    (`FAILED_RUNS`). Raises what reading the tables raises."""
    look = _LOOKS.get(kind)
    return look(warehouse, settings, before, now_ms) if look is not None else None


def looks_for(
    kinds: Iterable[NoticeKind], warehouse: Warehouse, settings: Settings, before: Outbox, now_ms: int
) -> tuple[dict[NoticeKind, Look], dict[NoticeKind, Exception]]:
    """Return what there is of these kinds, and why looking for some of them failed."""
    found: dict[NoticeKind, Look] = {}
    failed: dict[NoticeKind, Exception] = {}
    for kind in kinds:
        outcome = outcome_of(look_for, kind, warehouse, settings, before, now_ms)
        if isinstance(outcome, Exception):
            failed[kind] = outcome
        elif outcome is not None:
            found[kind] = outcome
    return found, failed


def failed_run(run_id: str, job: str, reasons: Sequence[str], at_ms: int) -> Notice:
    """Return the notice of a run that failed; `reasons` of its steps."""
    reason = " ".join(f"{each.rstrip('.')}." for each in reasons) or "Its log has the reason."
    remedy = "The next tick tries again."
    return Notice(NoticeKind.FAILED_RUNS, run_id, f"Run {run_id[:8]} of {job} failed. {reason}", remedy, at_ms=at_ms)


def _late(warehouse: Warehouse, settings: Settings, _before: Outbox, now_ms: int) -> Look:
    allowed = f"{settings.freshness_minutes:g} are allowed by SFCDC_FRESHNESS_MINUTES"
    seconds = settings.freshness_minutes * 60
    entities = [
        Notice(
            NoticeKind.LATE,
            f"entity {lag.entity}",
            f"{lag.entity} is late: {counted(lag.events, lag.kind)} landed and not applied, the oldest "
            f"{lag.begins} {lag.seconds / 60:.0f} minutes ago ({allowed}).",
            "Look at the last runs of this entity; `sfcdc status` says what it waits for.",
            entity=lag.entity,
            at_ms=now_ms,
        )
        for lag in lags(warehouse, settings, now_ms)
        if lag.is_late(settings)
    ]
    channels = [
        Notice(
            NoticeKind.LATE,
            f"channel {channel}",
            f"{channel} was last read {(now_ms - at) / 60_000:.0f} minutes ago ({allowed}).",
            "Look at the last ticks of its sensor.",
            channel=channel,
            at_ms=now_ms,
        )
        for channel, at in unread_channels(warehouse, settings, seconds, now_ms)
        if at is not None  # one that was never read waits for its first start
    ]
    objects = [
        Notice(
            NoticeKind.LATE,
            f"polls of {each.entity}",
            f"{each}: its changes were last seen {(now_ms - each.seen_until_ms) / 60_000:.0f} minutes ago ({allowed}).",
            "It is asked again after pauses that double.",
            entity=each.entity,
            at_ms=now_ms,
        )
        for each in unpolled_objects(warehouse, settings, seconds, now_ms)
    ]
    return Look((*channels, *objects, *entities))


def _refused(warehouse: Warehouse, settings: Settings, _before: Outbox, now_ms: int) -> Look:
    refused = refused_reads(warehouse, settings.entities)
    said = zip(refused, sentences(refused), strict=True)
    return Look(
        tuple(
            Notice(NoticeKind.REFUSED_READS, entity, sentence, entity=entity, at_ms=now_ms) for entity, sentence in said
        )
    )


def _lost(warehouse: Warehouse, settings: Settings, before: Outbox, now_ms: int) -> Look:
    losses = [loss for channel in settings.channels for loss in known_losses(warehouse, channel)]
    # At the first look all that there ever was is known, but for what is not mended yet.
    is_first = NoticeKind.LOST_CHECKPOINTS not in before.seen
    known = frozenset(_loss(loss, now_ms).key for loss in losses if is_first and loss.is_bridged)
    return Look(tuple(_loss(loss, now_ms) for loss in losses), known=known)


def _loss(loss: KnownLoss, now_ms: int) -> Notice:
    lost = loss.checkpoint
    return Notice(
        NoticeKind.LOST_CHECKPOINTS,
        f"{lost.channel} {lost.position}",
        str(loss),
        channel=lost.channel,
        position=lost.position,
        at_ms=now_ms,
    )


def _suspects(warehouse: Warehouse, settings: Settings, before: Outbox, now_ms: int) -> Look:
    """Look for new suspects: no row of a ledger is ever taken away, so that their number says how many are new."""
    marks = before.marks.get(NoticeKind.SUSPECTS)

    def look(entity: str) -> tuple[int, list[Notice]]:
        table = Table.open(warehouse, gap_reconciliation.name_of(entity))
        count = table.count() if table is not None else 0
        new = count - int(marks.get(entity, 0)) if marks is not None else 0
        if table is None or new <= 0:
            return count, []
        rows = table.scan(["record_id", "reason", "channel", "opened_position", "opened_at"])
        newest = rows.sort_by([("opened_at", "descending"), ("opened_position", "descending")])[:new].to_pylist()
        return count, list(_opened(entity, newest, now_ms))

    looked = of_readable(look, _entities(warehouse, settings), warehouse.looks_at_once)
    kept = {entity: mark for entity, mark in (marks or {}).items() if entity not in looked}
    return Look(
        news=tuple(notice for _, notices in looked.values() for notice in notices),
        marks={**kept, **{entity: count for entity, (count, _) in looked.items()}},
    )


def _opened(entity: str, rows: Sequence[Mapping[str, object]], now_ms: int) -> Iterator[Notice]:
    by_channel: dict[str, list[Mapping[str, object]]] = defaultdict(list)
    for row in rows:
        if row["reason"] not in REFUSED_READS:
            by_channel[str(row["channel"])].append(row)
    for channel, of_channel in sorted(by_channel.items()):
        reasons = Counter(str(row["reason"]) for row in of_channel)
        whole = any(row["record_id"] == gap_reconciliation.ENTITY for row in of_channel)
        what = "the whole entity" if whole and len(of_channel) == 1 else counted(len(of_channel), "record")
        newest = max(int(str(row["opened_position"])) for row in of_channel)
        yield Notice(
            NoticeKind.SUSPECTS,
            f"{entity} {channel} {newest}",
            f"{entity}: {what} became suspect ({_counts(reasons)}).",
            "The run reads them back from the org.",
            entity=entity,
            channel=channel,
            position=newest,
            at_ms=now_ms,
        )


def _old_suspects(warehouse: Warehouse, settings: Settings, _before: Outbox, now_ms: int) -> Look:
    def look(entity: str) -> list[Notice]:
        old: dict[Reason, list[OpenSuspect]] = defaultdict(list)
        for suspect in open_suspects(warehouse, entity):
            if not suspect.refuses_a_read and now_ms - suspect.opened_at > LONG_SUSPECT_MS:
                old[suspect.reason].append(suspect)
        return [_long_suspect(entity, reason, suspects, now_ms) for reason, suspects in sorted(old.items())]

    looked = of_readable(look, _entities(warehouse, settings), warehouse.looks_at_once)
    return Look(tuple(notice for notices in looked.values() for notice in notices))


def _long_suspect(entity: str, reason: Reason, suspects: Sequence[OpenSuspect], now_ms: int) -> Notice:
    oldest = min(suspects, key=attrgetter("opened_at"))
    tries = max(suspect.attempts for suspect in suspects)
    what = "the whole entity" if oldest.record_id == gap_reconciliation.ENTITY else counted(len(suspects), "record")
    failed = f"; {counted(tries, 'read')} of the org failed" if tries else ""
    return Notice(
        NoticeKind.OLD_SUSPECTS,
        f"{entity} {reason}",
        f"{entity}: {what} suspect for {(now_ms - oldest.opened_at) / 60_000:.0f} minutes ({reason}){failed}.",
        f"`last_error` in gap_reconciliation/{entity} says what keeps them from being read back.",
        entity=entity,
        channel=oldest.channel,
        position=oldest.opened_position,
        at_ms=now_ms,
    )


def _schema_changes(warehouse: Warehouse, settings: Settings, before: Outbox, now_ms: int) -> Look:
    """Look for changed columns. A mark is what they were, and which changes of the last days were reported by then."""
    marks, moment = before.marks.get(NoticeKind.SCHEMA_CHANGES), utc(now_ms)

    def look(entity: str) -> tuple[Mark, list[Notice]]:
        found = CurrentState.open(warehouse, entity)
        if found is None:
            return "", []
        now, mark = _columns(found.schema), str((marks or {}).get(entity, ""))
        then, *reported = mark.split(SEPARATOR)
        if then == now:
            return mark, []
        changes = [
            str(each) for each in schema_changes(columns_before(warehouse, entity, found.table, moment), found.schema)
        ]
        new = [each for each in changes if each not in reported] or ["its columns are others than at the last look"]
        notice = Notice(
            NoticeKind.SCHEMA_CHANGES,
            f"{entity} {now}",
            f"{entity}: {'; '.join(new)}.",
            "Queries and models that use these columns may have to follow.",
            entity=entity,
            at_ms=now_ms,
        )
        return SEPARATOR.join([now, *changes]), [notice] if mark else []

    entities = [
        each for each in warehouse.entities(current_state.LAYER) if not settings.entities or each in settings.entities
    ]
    looked = of_readable(look, entities, warehouse.looks_at_once)
    kept = {entity: mark for entity, mark in (marks or {}).items() if entity not in looked}
    return Look(
        news=tuple(notice for _, notices in looked.values() for notice in notices),
        marks={**kept, **{entity: mark for entity, (mark, _) in looked.items() if mark}},
    )


def _columns(schema: pa.Schema) -> str:
    reported = [(field.name, column_type(field), is_retired(field)) for field in schema]
    return sha256(repr(sorted(reported)).encode()).hexdigest()[:12]


def _entities(warehouse: Warehouse, settings: Settings) -> list[str]:
    with_ledgers = warehouse.entities(gap_reconciliation.LAYER)
    return [entity for entity in with_ledgers if not settings.entities or entity in settings.entities]


def _counts(reasons: Mapping[str, int]) -> str:
    return ", ".join(
        f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=itemgetter(1), reverse=True)
    )


_LOOKS: Mapping[NoticeKind, Callable[[Warehouse, Settings, Outbox, int], Look]] = MappingProxyType(
    {
        NoticeKind.LATE: _late,
        NoticeKind.SUSPECTS: _suspects,
        NoticeKind.OLD_SUSPECTS: _old_suspects,
        NoticeKind.REFUSED_READS: _refused,
        NoticeKind.LOST_CHECKPOINTS: _lost,
        NoticeKind.SCHEMA_CHANGES: _schema_changes,
    }
)
