"""Erase records from a warehouse, so that no byte of their values is left in it, and none comes back.

In this order, so that a crash anywhere is made up for by doing it again:

1. a receipt that says it has begun: from then on landing and reads of the org leave the records out;
2. what tables are built from (events, snapshots, ledgers), and the old files of these, so that nothing can be read any
   more by a run that was planned before;
3. what is built. Each of its tables gets a commit that has every batch refused which opened it before;
4. cuts that need old files, then those files; and everything once more, should a run have been faster;
5. the receipt that says it is done.

While this is at work no rebuild of the entities is, which would put in place what it has read before.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.lake.delta.dead_files import delete_dead_files
from sfcdc_assets.lake.delta.shadow_tables import build_shadow_tables
from sfcdc_assets.lake.erasure.erasable_tables import Erasable, Records, erasable_tables, ids_in_layers, with_companions
from sfcdc_assets.lake.erasure.old_files import forget_statistics, old_files, release_cuts
from sfcdc_assets.lake.erasure.rewritten_files import erase_rows, rows_found
from sfcdc_assets.lake.store.pending_events import remove_pending_with
from sfcdc_assets.lake.tables import current_state, history, snapshots, text_fields
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.erasure_receipts import Done, OnNewEvent, Step, erased_records, note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError, enumerated
from sfcdc_assets.runtime.progress import TableSearched, notify

PASSES = 3
"""How often everything is looked through: a run that was at work may have written a record again."""
REBUILT = (snapshots.LAYER, text_fields.LAYER, history.LAYER, current_state.LAYER)

NOT_REACHED = (
    "backups and other copies of the warehouse, and old versions that an object store keeps by itself",
    "the record in the org, and what other systems were given",
    "the Id where other records refer to it, such as in their lookups",
)
"""What no erasure of a warehouse reaches."""


class UnknownRecord(SfcdcError):
    """Records that are to be erased are in no table."""

    def __init__(self, entity: str, record_ids: Sequence[str]) -> None:
        self.entity, self.record_ids = entity, tuple(record_ids)
        super().__init__(
            f"{entity}: no table has a record {enumerated(self.record_ids, 5)}, and none was erased before. Nothing "
            "was changed. Check the id and the entity; `sfcdc forget --dry-run` shows where a record is found."
        )


class StillThere(SfcdcError):
    """A run at work wrote the records again and again."""

    def __init__(self, tables: Sequence[str]) -> None:
        self.tables = tuple(tables)
        super().__init__(
            f"{', '.join(self.tables)}: a run that had read the records before wrote them again. What was erased stays "
            "so; wait until the run has ended, and run the same `sfcdc forget` again."
        )


@dataclass(frozen=True)
class Found:
    """Where records are: rows by table, and old files by table."""

    rows: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Whether no table has anything of them."""
        return not any(self.rows.values()) and not any(self.files.values())

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        rows = {name: count for name, count in self.rows.items() if count}
        return {"rows": rows, "old_files": {name: len(paths) for name, paths in self.files.items() if paths}}


def find(warehouse: Warehouse, records: Records) -> Found:
    """Look through every table, and every old file, without changing anything."""
    rows, files = Counter[str](), defaultdict[str, list[str]](list)
    for each in erasable_tables(warehouse, with_companions(warehouse, records)):
        rows[each.table] += rows_found(warehouse, each)
        files[each.table] += old_files(warehouse, each)
        notify(TableSearched(each.table, rows[each.table], erased=False))
    return Found(dict(rows), dict(files))


def check_known(warehouse: Warehouse, records: Records) -> None:
    """Raise `UnknownRecord` for ids that no table has, and that were not erased before."""
    erased = erased_records(warehouse)
    for entity, ids in records.items():
        asked = {each for each in ids if erased.of(each) is None}
        asked -= ids_in_layers(warehouse, entity, asked)
        unknown = [each for each in sorted(asked) if find(warehouse, {entity: frozenset([each])}).is_nothing]
        if unknown:
            raise UnknownRecord(entity, unknown)


def erase(
    warehouse: Warehouse,
    records: Records,
    *,
    on_new_event: OnNewEvent,
    by: str,
    not_erased: Sequence[str] = (),
) -> tuple[str, Done]:
    """Erase the records, and those of their histories, feeds and shares; returns the receipt's name and what was done.

    `not_erased`: what the caller knows not to be reached, beside what never is. May be called again, after a crash or
    for nothing. Raises `UnknownRecord` and `RebuildAtWork` before anything has changed, and `StillThere`.
    """
    check_known(warehouse, records)
    receipt = uuid.uuid4().hex
    every = with_companions(warehouse, records)
    named = [(entity, each) for entity, ids in sorted(every.items()) for each in sorted(ids)]
    with ExitStack() as claims:
        for entity in sorted(every):
            claims.enter_context(build_shadow_tables(warehouse, [f"{layer}/{entity}" for layer in REBUILT]))
        note(warehouse, Step.BEGUN, named, on_new_event, receipt=receipt, by=by)
        erased, files, dropped = Counter[str](), 0, 0
        for _ in range(PASSES):
            rows_of_pass, files_of_pass, cuts_of_pass = _pass(warehouse, every)
            erased += rows_of_pass
            files, dropped = files + files_of_pass, dropped + cuts_of_pass
            if not rows_of_pass and not files_of_pass:
                break
        else:
            raise StillThere(sorted(name for name, count in rows_of_pass.items() if count))
        done = Done(dict(erased), files, dropped, (*NOT_REACHED, *not_erased))
        note(warehouse, Step.DONE, named, on_new_event, receipt=receipt, by=by, done=done)
    return receipt, done


def _pass(warehouse: Warehouse, records: Records) -> tuple[Counter[str], int, int]:
    """Erase what there is; returns rows by table, files and cuts."""
    erased, files, dropped = Counter[str](), remove_pending_with(warehouse, _texts(records)), 0
    for is_built in (False, True):
        tables = [each for each in erasable_tables(warehouse, records) if each.is_built is is_built]
        for each in tables:
            count = erase_rows(warehouse, each)
            if count:
                erased[each.table] += count
            notify(TableSearched(each.table, count, erased=True))
        old = _old(warehouse, tables)
        dropped += release_cuts(warehouse, old)
        files += sum(delete_dead_files(warehouse, name, paths) for name, paths in old.items())
    for name in erased:
        forget_statistics(warehouse, name)
    for entity in records:
        state = CurrentState.open(warehouse, entity)
        if state is not None:
            state.note_counts()
    return erased, files, dropped


def _texts(records: Records) -> list[bytes]:
    return [each[:15].encode() for ids in records.values() for each in ids]


def _old(warehouse: Warehouse, tables: Sequence[Erasable]) -> dict[str, list[str]]:
    found = defaultdict[str, list[str]](list)
    for each in tables:
        found[each.table] += old_files(warehouse, each)
    return dict(found)
