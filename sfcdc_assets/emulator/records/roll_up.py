"""Roll-up summary fields: which parents a transaction leaves out of date, and what their summaries should be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition, RollUp
from sfcdc_assets.emulator.org.database import Database, quoted
from sfcdc_assets.emulator.org.transaction import UPDATE, RecordChange, StoredValue

Summary = tuple[str, FieldDefinition, RollUp]
"""Parent object name, its summary field, the roll-up."""


class RollUps:
    """All roll-up summaries of an org's definitions."""

    def __init__(self, database: Database, definitions: Mapping[str, ObjectDefinition]) -> None:
        self._database = database
        self.summaries: tuple[Summary, ...] = tuple(
            (definition.name, field, field.roll_up)
            for definition in definitions.values()
            for field in definition.fields
            if field.roll_up is not None and field.roll_up.child in definitions
        )

    def stale(self, changes: Iterable[RecordChange]) -> Iterator[tuple[str, str, dict[str, StoredValue]]]:
        """Parent object, parent id and new values, for each summary these changes of child records made wrong."""
        parents: dict[tuple[int, str], None] = {}
        for change in changes:
            for number, (_, _, roll_up) in enumerate(self.summaries):
                if change.entity == roll_up.child and _counts(change, roll_up):
                    for values in (change.before, change.after):
                        parent_id = values.get(roll_up.parent_field) if values else None
                        if isinstance(parent_id, str):
                            parents[number, parent_id] = None
        for number, parent_id in parents:
            parent, field, roll_up = self.summaries[number]
            old = self._database.row(f'SELECT {quoted(field.name)} FROM {quoted(parent)} WHERE "Id" = ?', (parent_id,))
            new = self._database.row(f"SELECT {summary_sql(field, roll_up, '?')}", (parent_id,))
            if old is not None and new is not None and old[0] != new[0]:
                yield parent, parent_id, {field.name: new[0]}

    def recalculate_all(self) -> None:
        """Set every summary of every record; used after a mass load that raises no events."""
        for parent, field, roll_up in self.summaries:
            outer_id = f'{quoted(parent)}."Id"'
            self._database.execute(
                f"UPDATE {quoted(parent)} SET {quoted(field.name)} = {summary_sql(field, roll_up, outer_id)}"
            )


def _counts(change: RecordChange, roll_up: RollUp) -> bool:
    """Return whether a change of a child record can change a summary: an update of other fields cannot."""
    before, after = change.before, change.after
    if change.change_type != UPDATE or before is None or after is None:
        return True
    return any(before.get(name) != after.get(name) for name in (roll_up.parent_field, roll_up.field) if name)


def summary_sql(field: FieldDefinition, roll_up: RollUp, parent_id: str) -> str:
    """Return the summary as a scalar subquery; sums are rounded to the field's scale so that they do not depend on the
    order of the children."""
    what = "COUNT(*)" if roll_up.field is None else f"ROUND(SUM({quoted(roll_up.field)}), {field.scale})"
    return (
        f"(SELECT {what} FROM {quoted(roll_up.child)} AS child "
        f'WHERE child.{quoted(roll_up.parent_field)} = {parent_id} AND child."IsDeleted" = 0)'
    )
