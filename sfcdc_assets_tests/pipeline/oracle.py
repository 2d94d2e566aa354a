"""What tables should hold, worked out from the emulated org's records and log alone.

Nothing of the project's own comparison is used, so a mistake in it cannot hide one in the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import DELETE

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Rows = dict[str, dict[str, Any]]
"""Rows by Id."""


def column_fields(definition: ObjectDefinition) -> list[FieldDefinition]:
    """The fields that tables have a column for."""
    return [field for field in definition.stored_fields if field.name == "Id" or field.in_change_events]


def living_at(org: EmulatedOrg, entity: str, commit_number: int) -> Rows:
    """The live records right after that transaction, with the fields of that time; 0: before the first one."""
    definition = org.definitions_at(commit_number).get(entity)
    if definition is None:
        return {}
    return {
        record_id: _typed_row(definition, record) for record_id, record in org.records_at(entity, commit_number).items()
    }


def _typed_row(definition: ObjectDefinition, record: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: typed(field, record.get(field.name)) for field in column_fields(definition)}


def expected_rows(org: EmulatedOrg, entity: str) -> Rows:
    """The org's records with the types of the contract, those in the recycle bin too, but for those that were made and
    deleted in one transaction: no event tells of them."""
    definition = org.definitions[entity]
    with org.database.lock:
        rows = {
            str(record["Id"]): _typed_row(definition, record)
            | {"_is_deleted": bool(record.get("IsDeleted", False)), "_in_doubt": False}
            for record in org.records(entity, include_deleted=True)
        }
        for record_id in _never_alive(org, entity, rows):
            del rows[record_id]
    return rows


def with_last_values(org: EmulatedOrg, entity: str, expected: Rows, found: Rows) -> Rows:
    """The expected rows, but for records that a transaction changed before it deleted them: their event is a DELETE
    alone, so a row that nobody read in the recycle bin has the values from before that transaction."""
    differing = {
        record_id
        for record_id, row in expected.items()
        if row["_is_deleted"]
        and record_id in found
        and any(found[record_id].get(name) != value for name, value in row.items())
    }
    if not differing:
        return expected
    with org.database.lock:
        definition, last = org.definitions[entity], dict[str, Rows]()
        for made in org.transactions():
            for change in made.changes:
                if change.entity == entity and change.record_id in differing and change.change_type == DELETE:
                    values = _typed_row(definition, change.before or {})
                    last[change.record_id] = {**expected[change.record_id], **values}
    return {**expected, **last}


def _never_alive(org: EmulatedOrg, entity: str, rows: Rows) -> set[str]:
    """Ids of deleted records that no transaction left alive."""
    first = next(org.transactions(), None)
    if first is None:
        return set()
    began = EPOCH + timedelta(milliseconds=first.commit_timestamp // 1000 * 1000)
    young = {
        record_id
        for record_id, row in rows.items()
        if row["_is_deleted"] and (made := row.get("CreatedDate")) is not None and made >= began
    }
    if not young:
        return young
    young -= org.records_at(entity, 0).keys()
    return young - {
        change.record_id for made in org.transactions() for change in made.changes if change.entity == entity
    }


def typed(field: FieldDefinition, value: Any) -> Any:
    """A stored value as the contract types it in a table."""
    if value is None:
        return None
    if field.type == "datetime":
        return EPOCH + timedelta(milliseconds=value)
    if field.type == "date":
        return date.fromisoformat(value)
    if field.type in {"double", "currency", "percent"}:
        return float(value)
    return value


def without_those_gone(entity: str, found: Rows, expected: Rows) -> Rows:
    """The rows, but for those of records that the org has not even in its recycle bin: each says so."""
    gone = found.keys() - expected.keys()
    assert all(found[each]["_is_deleted"] for each in gone), (entity, sorted(gone)[:5])
    return {each: row for each, row in found.items() if each not in gone}


def assert_same_rows(entity: str, found: Rows, expected: Rows) -> None:
    """Same records, same columns, same values; what differs is listed by record and field."""
    assert found.keys() == expected.keys(), (
        f"{entity}: missing {sorted(expected.keys() - found.keys())[:5]}, "
        f"not in the org {sorted(found.keys() - expected.keys())[:5]}"
    )
    for record_id, wanted in expected.items():
        row = found[record_id]
        columns = {name for name in row if not name.startswith("_")}
        assert columns == {name for name in wanted if not name.startswith("_")}, entity
        wrong = {name: (row[name], value) for name, value in wanted.items() if row[name] != value}
        assert not wrong, f"{entity} {record_id}: (table, org) of {wrong}"
        assert (row["_deleted_reason"] is None) == (not row["_is_deleted"]), (entity, record_id)
