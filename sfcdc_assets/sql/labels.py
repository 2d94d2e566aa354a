"""Labels beside values: what people read in Salesforce where tables have a picklist's values, or a record type's id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription
from sfcdc_assets.sql.text import name, value
from sfcdc_assets.sql.users import readable_columns

RECORD_TYPE = "RecordTypeId"
PICKLIST_LABELS, RECORD_TYPE_NAMES = "picklist_labels", "record_type_names"
"""Relations with the newest label of each value, its field in lower case, and the newest name of each record type."""


class Kind(StrEnum):
    """What a column holds that has a label beside it."""

    VALUE = "picklist"
    VALUES = "multipicklist"
    RECORD_TYPE = "record type"


@dataclass(frozen=True)
class Label:
    """A column with labels: its name, and of which kind the column is that it stands beside."""

    beside: str
    kind: Kind

    def description(self, column: str) -> str:
        """Say what the column holds, in a sentence."""
        what = "Name of the record type" if self.kind is Kind.RECORD_TYPE else "Label of the value"
        return f"{what} in {column}, as it is now."


def label_columns(
    schema: pa.Schema, described: ObjectDescription | None, beside: Iterable[str] = ()
) -> dict[str, Label]:
    """Column -> the one with its labels: `LeadSource` -> `lead_source_label`, `Tier__c` -> `tier__c_label`,
    `RecordTypeId` -> `record_type_name`.

    Each name follows from its field alone; one that the table has, or that another column `beside` has, is left out.
    So are hashed columns.
    """
    taken = {each.lower() for each in (*schema.names, *beside)}
    found, columns = dict[str, Label](), readable_columns(schema)
    for field in described.fields if described else ():
        label, column = _label(field), columns.get(field.name.lower())
        if label is not None and label.beside not in taken and column is not None:
            taken.add(label.beside)
            found[column] = label
    return found


def label_joins(entity: str, columns: Mapping[str, Label]) -> tuple[str, str]:
    """Return what to select beside a relation `v` of the entity's rows, and what to join to it. A value without a label
    is its own, as Salesforce shows it."""
    selected, joined = "", ""
    for number, (column, label) in enumerate(columns.items()):
        of, beside, it = f"v.{name(column)}", name(label.beside), f"l{number}"
        if label.kind is Kind.RECORD_TYPE:
            selected += f", {it}.name AS {beside}"
            joined += f" LEFT JOIN {RECORD_TYPE_NAMES} AS {it} ON {it}.id = {of}"
            continue
        # One row, with a map: a join for each column would be one that no engine can leave out.
        labels = f"SELECT map_from_entries(list((value, label))) AS labels FROM {PICKLIST_LABELS}"
        joined += (
            f" CROSS JOIN ({labels} WHERE entity_name = {value(entity)} AND field = {value(column.lower())}) AS {it}"
        )
        if label.kind is Kind.VALUE:
            selected += f", coalesce({it}.labels[{of}], {of}) AS {beside}"
        else:
            each = f"[coalesce({it}.labels[each], each) FOR each IN string_split({of}, ';')]"
            selected += f", array_to_string({each}, ';') AS {beside}"
    return selected, joined


def picklist_labels(values: str | None) -> str:
    """Return the query of `PICKLIST_LABELS` over the rows of `picklist_values`; None where the warehouse has none."""
    if values is None:
        nothing = ", ".join(f"CAST(NULL AS VARCHAR) AS {each}" for each in ("entity_name", "field", "value", "label"))
        return f"SELECT {nothing} WHERE false"
    newest = "coalesce(arg_max(label, _valid_from), value) AS label"
    # A field that was made again in another case has rows of both.
    field = "lower(field)"
    return f"SELECT entity_name, {field} AS field, value, {newest} FROM ({values}) GROUP BY entity_name, {field}, value"


def record_type_names(types: str | None) -> str:
    """Return the query of `RECORD_TYPE_NAMES` over the rows of `record_types`; None where the warehouse has none."""
    if types is None:
        return "SELECT CAST(NULL AS VARCHAR) AS id, CAST(NULL AS VARCHAR) AS name WHERE false"
    return f"SELECT record_type_id AS id, arg_max(name, _valid_from) AS name FROM ({types}) GROUP BY record_type_id"


def _label(field: FieldDescription) -> Label | None:
    if field.name == RECORD_TYPE:
        return Label("record_type_name", Kind.RECORD_TYPE)
    if field.type not in (Kind.VALUE, Kind.VALUES):
        return None
    # A custom field keeps its whole name: those of two may differ by an underscore only.
    words = field.name if "__" in field.name else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field.name)
    return Label(f"{words.lower()}_label", Kind(field.type))
