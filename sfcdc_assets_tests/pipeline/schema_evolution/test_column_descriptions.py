"""What catalogues, and docs/tables.md, say of columns."""

from __future__ import annotations

import pyarrow as pa

from sfcdc_assets.schema_evolution.column_descriptions import OF_THE_SYSTEM, column_description
from sfcdc_assets.timeline.version_columns import END_COLUMNS, SYSTEM_COLUMNS

COLUMNS = [field.name for field in (*SYSTEM_COLUMNS, *END_COLUMNS)]


def test_every_column_beside_an_objects_own_is_described() -> None:
    assert list(OF_THE_SYSTEM) == COLUMNS


def test_a_field_has_its_label_and_what_became_of_it() -> None:
    labels = {"Name": "Account Name", "Phone": "Phone"}
    assert column_description(pa.field("Name", pa.string()), labels) == "Account Name."
    assert column_description(pa.field("Site", pa.string()), labels) is None
    hashed = pa.field("Phone", pa.string(), metadata={"salesforce.hashed": "1"})
    assert column_description(hashed, labels) == "Phone. A keyed hash of its values (SFCDC_HASH)."
    formula = pa.field("Score__c", pa.float64(), metadata={"salesforce.formula": "true"})
    assert column_description(formula) == "A formula: as of the last event that named it, or the last read."
    kept = column_description(pa.field("Rank__c__before_1", pa.string()), labels)
    assert kept == "Values of Rank__c from before its type changed, which do not convert."
