"""Where each column of a materialization comes from: of a layer those that all entities have in it, of an entity's own
asset its fields too.

Dagster writes these down with every materialization, so a column names at most two others, whatever the object's width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import dagster as dg
import pyarrow as pa

from sfcdc_assets.change_events.columns import SYSTEM_COLUMN_PREFIX
from sfcdc_assets.orchestration.assets.keys import AssetKeys
from sfcdc_assets.timeline.version_columns import END_COLUMNS, OF_THE_ROW, SYSTEM_COLUMNS

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
    "_dated_by": "commit_timestamp",
    "_valid_to": "commit_timestamp",
    "_superseded_at": "position",
    "_certain_fields": "payload",
}
"""Our own columns -> the column of `raw_events` that they come from."""
_OF_NO_EVENT = ("_batch", "_first_batch")
_OF_VALUE = {"record_id": "record_ids", "field": "payload", "position": "position", "value": "payload"}
_OF_SUSPECT = {"record_id": "record_ids", "reason": "change_type", "opened_position": "position", "detail": "payload"}


def of_raw_events(keys: AssetKeys, channel: str) -> dg.TableColumnLineage:
    """Return the lineage of `raw_events`: its columns are those of the events' header, beside the payload."""
    source = keys.of_channel(channel)
    return dg.TableColumnLineage(
        {column: [_dep(source, f"ChangeEventHeader.{name}")] for column, name in _OF_HEADER.items()}
    )


def of_text_fields(keys: AssetKeys) -> dg.TableColumnLineage:
    """Values come from events; which field of the snapshot is in the row itself."""
    return _from_raw_events(keys, _OF_VALUE)


def of_gap_reconciliation(keys: AssetKeys) -> dg.TableColumnLineage:
    """Entries come from events."""
    return _from_raw_events(keys, _OF_SUSPECT)


def of_current_state(keys: AssetKeys) -> dg.TableColumnLineage:
    """Return the lineage of `current_state`, of the columns that all entities have in it."""
    read = {
        "Id": [_dep(keys.raw_events, "record_ids"), _dep(keys.snapshot, "Id")],
        "_in_doubt": [_dep(keys.gap_reconciliation, "status")],
        "_read_position": [_dep(keys.snapshot, "_position")],
    }
    return dg.TableColumnLineage(_of_events(keys, SYSTEM_COLUMNS.names) | read)


def of_history(keys: AssetKeys) -> dg.TableColumnLineage:
    """Return the lineage of `history`: a version has what `current_state` had at its time, and its end."""
    kept = [name for name in SYSTEM_COLUMNS.names if name not in OF_THE_ROW]
    versions = {name: [_dep(keys.current_state, name)] for name in ("Id", *kept) if name not in _OF_NO_EVENT}
    return dg.TableColumnLineage(versions | _of_events(keys, END_COLUMNS.names))


def of_entity(keys: AssetKeys, channel: str, entity: str, schema: pa.Schema) -> dg.TableColumnLineage:
    """Return the lineage of an entity's own asset: a field's values come from the events of its channel
    (`Account.Name`) and from the snapshot; what is said of a row is in `current_state`."""
    source = keys.of_channel(channel)
    names = [name for name in schema.names if not name.startswith(SYSTEM_COLUMN_PREFIX)]
    fields = {name: [_dep(source, f"{entity}.{name}"), _dep(keys.snapshot, name)] for name in names}
    own = {name: [_dep(keys.current_state, name)] for name in SYSTEM_COLUMNS.names if name in schema.names}
    return dg.TableColumnLineage(fields | own)


def _from_raw_events(keys: AssetKeys, columns: Mapping[str, str]) -> dg.TableColumnLineage:
    return dg.TableColumnLineage({name: [_dep(keys.raw_events, source)] for name, source in columns.items()})


def _of_events(keys: AssetKeys, names: Iterable[str]) -> dict[str, list[dg.TableColumnDep]]:
    return {name: [_dep(keys.raw_events, _OF_EVENT[name])] for name in names if name in _OF_EVENT}


def _dep(asset: dg.AssetKey, column: str) -> dg.TableColumnDep:
    return dg.TableColumnDep(asset_key=asset, column_name=column)
