"""Where each column of a materialization comes from: Salesforce field -> `raw_events` -> column.

Dagster writes these down with every materialization, so a column names at most two others, whatever the object's width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import dagster as dg
import pyarrow as pa

from sfcdc_assets.change_events.columns import SYSTEM_COLUMN_PREFIX
from sfcdc_assets.orchestration.assets.keys import (
    CURRENT_STATE_KEY,
    GAP_RECONCILIATION_KEY,
    RAW_EVENTS_KEY,
    SNAPSHOT_KEY,
)
from sfcdc_assets.orchestration.assets.specs import channel_key

_OF_HEADER = {
    "record_ids": "recordIds",
    "change_type": "changeType",
    "transaction_key": "transactionKey",
    "sequence_number": "sequenceNumber",
    "commit_timestamp": "commitTimestamp",
    "commit_number": "commitNumber",
    "commit_user": "commitUser",
    "change_origin": "changeOrigin",
}
_OF_EVENT = {
    "_is_deleted": "change_type",
    "_deleted_reason": "change_type",
    "_change_type": "change_type",
    "_changed_fields": "payload",
    "_position": "position",
    "_commit_timestamp": "commit_timestamp",
    "_commit_user": "commit_user",
    "_change_origin": "change_origin",
    "_transaction_key": "transaction_key",
    "_valid_from": "commit_timestamp",
    "_valid_to": "commit_timestamp",
    "_superseded_at": "position",
    "_certain_fields": "payload",
}
"""Our own columns -> the column of `raw_events` that they come from."""
_OF_VALUE = {"record_id": "record_ids", "field": "payload", "position": "position", "value": "payload"}
_OF_SUSPECT = {"record_id": "record_ids", "reason": "change_type", "opened_position": "position", "detail": "payload"}


def of_raw_events(channel: str, entity: str, fields: Iterable[str]) -> dg.TableColumnLineage:
    """Return the lineage of `raw_events`: the payload carries the entity's fields (`Account.Name` of the channel), the
    other columns its header."""
    source = channel_key(channel)
    header = {column: [_dep(source, f"ChangeEventHeader.{name}")] for column, name in _OF_HEADER.items()}
    payload = [_dep(source, f"{entity}.{field}") for field in fields]
    return dg.TableColumnLineage({**header, "payload": payload})


def of_text_fields() -> dg.TableColumnLineage:
    """Values come from events; which field of the snapshot is in the row itself."""
    return _from_raw_events(_OF_VALUE)


def of_gap_reconciliation() -> dg.TableColumnLineage:
    """Entries come from events."""
    return _from_raw_events(_OF_SUSPECT)


def of_current_state(schema: pa.Schema) -> dg.TableColumnLineage:
    """Return the lineage of `current_state`: a field's value comes from the events' payloads and from the snapshot's
    column of the same name."""
    fields = {name: [_dep(RAW_EVENTS_KEY, "payload"), _dep(SNAPSHOT_KEY, name)] for name in _fields(schema)}
    own = {name: [_dep(RAW_EVENTS_KEY, _OF_EVENT[name])] for name in schema.names if name in _OF_EVENT}
    suspect = {"_in_doubt": [_dep(GAP_RECONCILIATION_KEY, "status")]}
    read = {"_read_position": [_dep(SNAPSHOT_KEY, "_position")]}
    return dg.TableColumnLineage(fields | own | suspect | read)


def of_history(schema: pa.Schema) -> dg.TableColumnLineage:
    """Return the lineage of `history`: a version has what `current_state` had at its time."""
    fields = {name: [_dep(CURRENT_STATE_KEY, name)] for name in _fields(schema)}
    own = {name: [_dep(RAW_EVENTS_KEY, _OF_EVENT[name])] for name in schema.names if name in _OF_EVENT}
    return dg.TableColumnLineage(fields | own)


def _from_raw_events(columns: Mapping[str, str]) -> dg.TableColumnLineage:
    return dg.TableColumnLineage({name: [_dep(RAW_EVENTS_KEY, source)] for name, source in columns.items()})


def _fields(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if not name.startswith(SYSTEM_COLUMN_PREFIX)]


def _dep(asset: dg.AssetKey, column: str) -> dg.TableColumnDep:
    return dg.TableColumnDep(asset_key=asset, column_name=column)
