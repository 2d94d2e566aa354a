"""The oracle's past: all live records as they were right after any transaction.

It starts from the present and undoes, newest first, what the transaction log and the list of silent changes hold. So
nothing of the day-0 data is copied, and a look back costs what has happened since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.transaction import CREATE, UNDELETE, RecordChange, Transaction
from sfcdc_assets.emulator.setup.silent_changes import Records, SilentChange


def undo_since(
    present: Mapping[str, Records],
    transactions: Iterable[Transaction],
    silent: Iterable[SilentChange],
    definitions: Mapping[str, ObjectDefinition],
) -> dict[str, Records]:
    """Return the records of the objects in `definitions`, those that were there then, with `transactions` and `silent`
    undone.

    Both are oldest first; `present` is changed.
    """
    for event in reversed(list(_in_order(transactions, silent))):
        if isinstance(event, SilentChange):
            event.undo(present.get(event.entity, {}))
            continue
        for change in reversed(event.changes):
            if change.entity in present:
                _undo(change, present[change.entity])
    return {entity: records for entity, records in present.items() if entity in definitions}


def _in_order(
    transactions: Iterable[Transaction], silent: Iterable[SilentChange]
) -> Iterator[Transaction | SilentChange]:
    """Yield transactions and silent changes in order: a silent change stands after the transaction it follows."""
    waiting = list(silent)
    for transaction in transactions:
        while waiting and waiting[0].after_commit < transaction.commit_number:
            yield waiting.pop(0)
        yield transaction
    yield from waiting


def _undo(change: RecordChange, records: Records) -> None:
    if change.record_id.endswith("*"):  # the values of all records; their silent change has them
        return
    if change.change_type in (CREATE, UNDELETE) or change.before is None:
        records.pop(change.record_id, None)
    else:
        records[change.record_id] = dict(change.before)
