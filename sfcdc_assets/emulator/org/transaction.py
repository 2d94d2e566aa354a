"""A committed transaction of the org: what the oracle keeps and what change events are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

StoredValue = str | bool | int | float | None
"""Text, ids (18 characters), dates (yyyy-MM-dd), times (HH:mm:ss.SSS), multi-select (a;b); datetimes are int epoch
ms UTC."""

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"
UNDELETE = "UNDELETE"


@dataclass(frozen=True)
class RecordChange:
    """One record's part of a transaction, after all its DML in the transaction collapsed into one
    (docs/salesforce-streams.md, "Transactions and order").

    `before` and `after` hold every stored field (no compounds, no formulas) by API name; `before` is None for CREATE,
    `after` is None for DELETE. `changed_fields` (UPDATE only) are fields that change events carry, in definition order.
    """

    entity: str
    record_id: str
    change_type: str
    before: Mapping[str, StoredValue] | None
    after: Mapping[str, StoredValue] | None
    changed_fields: tuple[str, ...] = ()
    master_record_id: str | None = None
    is_conversion: bool = False
    """The type of a field changed under the record, so that its event is a gap."""
    is_silent: bool = False
    """The org changed the record and raises no event for it."""
    is_database_change: bool = False
    """Made in the database, past the application: its event is a gap with a key of the database."""


@dataclass(frozen=True)
class Transaction:
    """Changes that became visible together, in the order in which the records were first touched."""

    transaction_key: str
    commit_number: int
    commit_timestamp: int
    """Epoch ms UTC, in whole seconds as on the real thing."""
    commit_user: str
    change_origin: str
    changes: tuple[RecordChange, ...]
