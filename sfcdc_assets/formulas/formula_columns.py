"""The columns of `formula_values/<Entity>`: formula fields under their API names, with the types that fields of their
kind have in `current_state`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

import pyarrow as pa

from sfcdc_assets.change_events.columns import ID_COLUMN, Column, arrow_schema
from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets.formulas.dependencies import Describe, dependencies_of_all, formula_fields
from sfcdc_assets.salesforce.object_description import ObjectDescription

AS_OF = "_formulas_as_of"
"""When the values were read from the org, by our clock: not later than the answer, so what changed meanwhile is read
again."""
ROW_COLUMNS = pa.schema([(AS_OF, pa.timestamp("us", "UTC"))])


def formula_columns(description: ObjectDescription) -> tuple[Column, ...]:
    """Return `Id` and a column for each formula field that the user may read."""
    found = [ID_COLUMN]
    for each in formula_fields(description):
        shape = (each.length, each.precision, each.scale)
        column = field_type(each.type).column
        found.append(Column(each.name, column, salesforce_type=each.type, shape=shape if any(shape) else None))
    return tuple(found)


def formulas_withheld(
    description: ObjectDescription, describe: Describe, is_withheld: Callable[[str, str], bool]
) -> dict[str, str]:
    """Return the formulas that are withheld, each with why: it reads a field (object and name) whose values are, which
    its own would show, or nobody knows what it reads."""
    found: dict[str, str] = {}
    for name, each in dependencies_of_all(description, describe).items():
        read = {*each.reads(description.name), (description.name, name)}
        shown = sorted(f"{entity}.{field}" for entity, field in read if is_withheld(entity, field))
        if shown or each.unseen:
            found[name] = f"it shows {shown[0]}" if shown else min(each.unseen)
    return found


def row_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of the table."""
    return pa.schema([*arrow_schema(columns), *ROW_COLUMNS])


def fingerprint(description: ObjectDescription) -> int:
    """Return a number (63 bits) that is another one when the text or the type of a formula is: all values are then to
    be read again."""
    said = [[each.name, each.type, each.scale, each.calculated_formula] for each in formula_fields(description)]
    digest = hashlib.sha256(json.dumps(sorted(said, key=str)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
