"""Changes of a field of all records of an object: its values are cleared or converted because its type was changed, and
Salesforce says so by one event for all of them, or by a gap for each."""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.transaction import UPDATE, RecordChange, StoredValue
from sfcdc_assets.emulator.records.identity_map import IdentityMap
from sfcdc_assets.emulator.records.roll_up import RollUps


class ColumnChanges(IdentityMap):
    """The one column change that a transaction may be, instead of DML of records."""

    _cleared: RecordChange | None = None
    _cleared_values: Mapping[str, StoredValue] = {}
    _converted: tuple[RecordChange, ...] = ()

    def clear_field(self, entity: str, name: str, *, is_retyped: bool = False) -> None:
        """Null a field of all records, deleted ones too, as a change to an incompatible type does
        (docs/salesforce-streams.md, "Wildcard ids").

        It is one change, of the record id `001*`, and must be the transaction's only one. Audit fields stay.
        `is_retyped`: the type has been changed and the values with it; only the change is left to be reported.
        """
        definition = self._definition(entity)
        field = definition.field(name)
        if field is None:
            raise RecordError("INVALID_FIELD", f"No such column '{name}' on sobject of type {definition.name}", (name,))
        if self._touched or self._cleared or self._converted:
            raise RecordError("INVALID_OPERATION", "a field is cleared in a transaction of its own")
        if not is_retyped:
            if (
                not field.is_stored
                or not field.updateable
                or not field.nillable
                or field.type in {"boolean", "reference"}
            ):
                raise RecordError(
                    "INVALID_OPERATION", f"{entity}.{field.name} cannot be cleared for all records", (name,)
                )
            self._cleared_values = self._store.values(definition, field)
            self._store.clear_column(definition, field)
        self._cleared = RecordChange(entity, definition.key_prefix + "*", UPDATE, None, None, (field.name,))

    def convert_field(self, entity: str, name: str, old_values: Mapping[str, StoredValue]) -> None:
        """Say of the live records among `old_values` that the type of a field changed and the value with it, as
        Salesforce does where it converts values (docs/salesforce-streams.md, "Field type conversions"). Must be the
        transaction's only DML; audit fields stay."""
        definition = self._definition(entity)
        if self._touched or self._cleared or self._converted:
            raise RecordError("INVALID_OPERATION", "a field is converted in a transaction of its own")
        self._converted = tuple(
            RecordChange(
                entity,
                str(row["Id"]),
                UPDATE,
                {**row, name: old_values[str(row["Id"])]},
                row,
                (name,),
                is_conversion=True,
            )
            for row in self._store.records(definition, include_deleted=False, fields=definition.stored_fields)
            if row["Id"] in old_values
        )

    @property
    def cleared_values(self) -> tuple[str, Mapping[str, Mapping[str, StoredValue]]] | None:
        """The object, and field -> record id -> the value that a cleared field had, which no change says."""
        if self._cleared is None or not self._cleared_values:
            return None
        return self._cleared.entity, {self._cleared.changed_fields[0]: self._cleared_values}

    def _column_changes(self, roll_ups: RollUps) -> tuple[RecordChange, ...]:
        """Return the change of the column, if the transaction is one. Raises RecordError for a field that is summed
        up."""
        if self._cleared is None:
            return self._converted
        for _, _, roll_up in roll_ups.summaries:
            if self._cleared.entity == roll_up.child and self._cleared.changed_fields[0] == roll_up.field:
                raise RecordError("DEPENDENCY_EXISTS", f"{roll_up.field} is summed up by another object")
        return (self._cleared,)
