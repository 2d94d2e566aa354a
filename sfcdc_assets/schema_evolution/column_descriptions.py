"""What the columns of an entity's tables are, in one sentence each: for catalogues, which no docs page reaches."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sfcdc_assets.change_events.columns import FORMULA_METADATA, HASHED_METADATA
from sfcdc_assets.schema_evolution.schema_changes import KEPT_BEFORE, is_retired
from sfcdc_assets.settings.setting_values import as_set_here

OF_THE_SYSTEM: Mapping[str, str] = {
    "_is_deleted": "Deleted; the row and its last values stay.",
    "_deleted_reason": "deleted, merged or hard_deleted.",
    "_in_doubt": "Suspect: not certain until it is read back.",
    "_read_position": "The watermark of the last read that showed the record.",
    "_position": "Of the event that made the version, on the entity's channel; for one read back the read's watermark.",
    "_commit_timestamp": "Of the last event; for a row read back its SystemModstamp.",
    "_commit_user": "Of the event that made the version; for one read back its LastModifiedById.",
    "_change_origin": "API and client of the change; empty: by no API; null for one read back.",
    "_transaction_key": "Of the event that made the version; null for one read back.",
    "_valid_from": "Since when the version is valid, UTC.",
    "_dated_by": "Whose time that is: commit (the transaction's), stamp (the org's own of the record, which a read "
    "showed), seen (when the org was asked: the change came since the time before).",
    "_change_type": "CREATE, UPDATE, DELETE, UNDELETE; GAP_CREATE, GAP_UPDATE, GAP_DELETE, GAP_UNDELETE: an event "
    "without values; UNKNOWN: one that could not be read; SNAPSHOT, REFETCH, POLL: read from the org; FIELD_HISTORY: "
    "from field history (in history alone); null: a suspect record of which only the Id is known.",
    "_changed_fields": "The columns the version set, or a read showed to differ; null: every one, or not known.",
    "_certain_fields": "The columns whose values an event or a read has proven; null: all there were, but formulas.",
    "_batch": "Number of the batch that wrote the row last; in history, that superseded the version.",
    "_first_batch": "Number of the batch that wrote the record's first version; null: not noted, or only the Id is "
    "known.",
    "_valid_to": "UTC: when the next version began; null for the current version.",
    "_superseded_at": "Where the next version began, as a position; null for the current version.",
}
"""The columns beside an object's own fields; docs/tables.md says more."""


def column_description(field: pa.Field, labels: Mapping[str, str] | None = None) -> str | None:
    """Say what a column holds. `labels`: API name of a field -> its label in the org, and its help text. None where
    nothing is to be said."""
    kept = KEPT_BEFORE.fullmatch(field.name)
    if kept:
        return f"Values of {kept[1]} from before its type changed, which do not convert."
    if is_retired(field):
        return "Retired: the object no longer has this field; its last values stay."
    if field.name in OF_THE_SYSTEM:
        return OF_THE_SYSTEM[field.name]
    label, metadata = (labels or {}).get(field.name), field.metadata or {}
    parts = [f"{label.rstrip('.')}."] if label else []
    if metadata.get(FORMULA_METADATA) == b"true":
        parts.append("A formula: as of the last event that named it, or the last read.")
    if HASHED_METADATA in metadata:
        parts.append(as_set_here("A keyed hash of its values (SFCDC_HASH)."))
    return " ".join(parts) or None
