"""`gap_reconciliation/<Entity>`: the reconciliation ledger. One row for each time a record, or the entity, becomes
suspect, from then until it is healed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.erasure_receipts import NONE, erased_records
from sfcdc_assets.lake.tables.open_suspect import ENTITY, OpenSuspect
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms, utc
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets.timeline.suspect_behaviour import NOT_BLOCKING, NOTED_AGAIN, OF_A_SNAPSHOT

LAYER = "gap_reconciliation"

_ACCEPTED = "accepted"
"""The ledger's transaction version that says until when records that are gone were accepted, epoch ms."""

_TIME = pa.timestamp("us", "UTC")

LEDGER = pa.schema(
    [
        ("record_id", pa.string()),
        ("reason", pa.string()),
        ("opened_position", pa.int64()),
        ("opened_at", _TIME),
        ("status", pa.string()),
        ("healed_position", pa.int64()),
        ("healed_at", _TIME),
        ("channel", pa.string()),
        ("detail", pa.string()),
        ("attempts", pa.int32()),
        ("last_attempt_at", _TIME),
        ("last_error", pa.string()),
    ]
)
"""`opened_at` is when the entry was noted, `status` `open` or `healed`; `attempts` counts reads of the org that failed,
the last of them at `last_attempt_at` with `last_error`."""

_KEYS = ("record_id", "opened_position", "reason")


def name_of(entity: str) -> str:
    """Path of the entity's ledger below the warehouse."""
    return f"{LAYER}/{entity}"


class Ledger:
    """A handle on one snapshot of an entity's ledger."""

    def __init__(self, table: Table, warehouse: Warehouse) -> None:
        self.table = table
        self._warehouse = warehouse

    @classmethod
    def open(cls, warehouse: Warehouse, entity: str) -> Ledger | None:
        """Return the newest state; None when the entity never had an entry."""
        table = Table.open(warehouse, name_of(entity))
        return cls(table, warehouse) if table else None

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, entity: str) -> Ledger:
        """Return the newest state, created empty when there is none."""
        return cls(Table.open_or_create(warehouse, name_of(entity), LEDGER), warehouse)

    @property
    def has_open_suspects(self) -> bool:
        """Whether a file may have one, by the log alone: mostly all are healed, or there was none."""
        return self.table.may_have("status", "open")

    def open_suspects(self, *, of_the_entity: bool = False) -> list[OpenSuspect]:
        """All that are not healed, or only those about the entity as a whole, oldest first."""
        if not self.has_open_suspects:
            return []
        condition = f"status = 'open' and record_id = '{ENTITY}'" if of_the_entity else "status = 'open'"
        rows = sorted(self.table.rows(predicate=condition), key=itemgetter("opened_position"))
        return [
            OpenSuspect(
                row["record_id"],
                Reason(row["reason"]),
                row["detail"],
                row["channel"],
                row["opened_position"],
                _ms(row["opened_at"]) or 0,
                row["attempts"] or 0,
                _ms(row["last_attempt_at"]),
                row["last_error"],
            )
            for row in rows
        ]

    def note(
        self,
        suspects: Sequence[NewSuspect],
        channel: str,
        up_to: int,
        now_ms: int,
        versions: Mapping[str, int] | None = None,
    ) -> list[NewSuspect]:
        """Open entries; returns those that are new.

        `up_to` is the position the batch ends at, which keeps two writers of the channel apart. An entry that is open
        already, from an earlier attempt of the same batch or an earlier audit, is not opened twice; nor is one that an
        event or a snapshot raised and that was healed, when it is applied again by a rebuild. `versions` of other
        sources that the entries come from are kept even when there are none. A record that was erased is not suspect:
        nothing reads it back.
        """
        erased = erased_records(self._warehouse) if suspects else NONE
        suspects = list({_key(each): each for each in suspects if not erased.keeps_out(each.record_id)}.values())
        known = self._known(suspects)
        new = [each for each in suspects if _key(each) not in known]
        rows = [
            {
                "record_id": suspect.record_id,
                "reason": suspect.reason.value,
                "opened_position": suspect.position,
                "opened_at": utc(now_ms),
                "status": "open",
                "channel": channel,
                "detail": suspect.detail,
                "attempts": 0,
            }
            for suspect in new
        ]
        if rows or versions:
            transactions = {channel: up_to, **(versions or {})}
            self.table.append(pa.Table.from_pylist(rows, schema=LEDGER), transactions, {})
        return new

    def _known(self, suspects: Sequence[NewSuspect]) -> set[tuple[str, int, str]]:
        """Return which of these entries are open (those about records for whatever reason), or were raised by an event
        before and are healed."""
        if not suspects:
            return set()
        positions = [suspect.position for suspect in suspects]
        columns = ["record_id", "opened_position", "reason", "status", "detail"]
        rows = self.table.scan(columns, f"opened_position >= {min(positions)} and opened_position <= {max(positions)}")
        opened = {(row["record_id"], row["opened_position"]) for row in rows.to_pylist() if row["status"] == "open"}
        noted = {
            (row["record_id"], row["opened_position"], row["reason"], _which(row["reason"], row["detail"]))
            for row in rows.to_pylist()
        }
        return {
            key
            for suspect in suspects
            if ((key := _key(suspect))[:2] in opened and key[0] != ENTITY)
            or ((*key, _which(key[2], suspect.detail)) in noted and key[2] not in NOTED_AGAIN)
        }

    def holding_positions(self, channel: str) -> list[int]:
        """Positions on a channel of all entries about the entity there ever were that events waited for, in order."""
        return sorted({position for position, _ in self.holding(channel)})

    def holding(self, channel: str) -> list[tuple[int, Reason]]:
        """Return position and reason of each of these entries, in no order."""
        of_entity = f"record_id = '{ENTITY}' and channel = {literal(channel)}"
        others = ", ".join(f"'{reason}'" for reason in sorted(NOT_BLOCKING))
        rows = self.table.scan(["opened_position", "reason"], f"{of_entity} and reason not in ({others})")
        return [(row["opened_position"], Reason(row["reason"])) for row in rows.to_pylist()]

    def heal(self, suspects: Sequence[OpenSuspect], positions: Mapping[str, int], now_ms: int) -> None:
        """Close the entries, each at the position its record's read stands for."""
        self._update(
            suspects,
            {
                "status": ["healed"] * len(suspects),
                "healed_position": [positions[suspect.record_id] for suspect in suspects],
                "healed_at": [utc(now_ms)] * len(suspects),
            },
        )

    def failed(self, suspects: Sequence[OpenSuspect], error: str | Mapping[str, str], now_ms: int) -> None:
        """Note that reading these records failed, all for one reason or each (by its id) for its own."""
        self._update(
            suspects,
            {
                "attempts": [suspect.attempts + 1 for suspect in suspects],
                "last_attempt_at": [utc(now_ms)] * len(suspects),
                "last_error": [error if isinstance(error, str) else error[suspect.record_id] for suspect in suspects],
            },
        )

    def refuse_read(self, reason: Reason, channel: str, position: int, why: str, now_ms: int, *, whole: bool) -> None:
        """Note that a read was refused, or was not believed: once, and, if it was one of the `whole` entity, how often
        and when, which pauses the next."""
        found = [suspect for suspect in self.open_suspects(of_the_entity=True) if suspect.reason == reason]
        if not found:
            self.note([NewSuspect(ENTITY, reason, position, why)], channel, position, now_ms)
            found = [suspect for suspect in self.open_suspects(of_the_entity=True) if suspect.reason == reason]
        if whole:
            self.failed(found, why, now_ms)

    def end_refusal(self, reason: Reason, position: int, now_ms: int) -> None:
        """Note that reads of the entity are no longer refused for this reason."""
        found = [suspect for suspect in self.open_suspects(of_the_entity=True) if suspect.reason == reason]
        self.heal(found, {ENTITY: position}, now_ms)

    def accepted_at(self) -> int:
        """Return the time, epoch ms, until when entries were opened whose records are believed to be gone if the org
        does not show them."""
        return self.table.transaction_version(_ACCEPTED) or 0

    def accept_gone(self, suspects: Sequence[OpenSuspect], now_ms: int) -> None:
        """Let these records be read again at once, and believe it if they are gone."""
        self._update(suspects, {"last_attempt_at": [None] * len(suspects), "last_error": [None] * len(suspects)})
        self.table.append(LEDGER.empty_table(), {_ACCEPTED: now_ms}, {})

    def counts(self) -> dict[str, int]:
        """Open entries by reason."""
        if not self.has_open_suspects:
            return {}
        rows = self.table.frame(["reason"], "status = 'open'")
        return dict(rows.group_by("reason").len().sort("reason").iter_rows())

    def head_of_open(self, count: int) -> pa.Table:
        """Return some of the rows of open entries."""
        return self.table.head("status = 'open'", count) if self.has_open_suspects else LEDGER.empty_table()

    def _update(self, suspects: Sequence[OpenSuspect], values: Mapping[str, Sequence[object]]) -> None:
        if not suspects:
            return
        keys = {
            "record_id": [suspect.record_id for suspect in suspects],
            "opened_position": [suspect.opened_position for suspect in suspects],
            "reason": [suspect.reason for suspect in suspects],
        }
        schema = pa.schema([LEDGER.field(name) for name in (*keys, *values)])
        self._write(pa.table({**keys, **values}, schema=schema), tuple(values))

    @retry_on_conflict
    def _write(self, rows: pa.Table, columns: Sequence[str]) -> None:
        """Set columns of the entries that are still open. Whoever committed first meanwhile noted others, closed some
        of them or packed files: on top of that it means the same, so nothing has to be decided again."""
        try:
            self.table.update_rows(rows, _KEYS, columns, only="t.status = 'open'")
        except ConcurrentCommit:
            self.table = Table.open_or_create(self._warehouse, self.table.name, LEDGER)
            raise


def open_suspects(warehouse: Warehouse, entity: str, *, of_the_entity: bool = False) -> list[OpenSuspect]:
    """Return the open entries of the entity's ledger, as `Ledger.open_suspects` does; none where there is no ledger."""
    ledger = Ledger.open(warehouse, entity)
    return ledger.open_suspects(of_the_entity=of_the_entity) if ledger else []


def _key(suspect: NewSuspect) -> tuple[str, int, str]:
    return suspect.record_id, suspect.position, suspect.reason.value


def _which(reason: str, detail: str | None) -> str | None:
    """Return what distinguishes entries of one reason about one record at one position."""
    return detail if reason in OF_A_SNAPSHOT else None


def _ms(time: datetime | None) -> int | None:
    return None if time is None else epoch_ms(time)
