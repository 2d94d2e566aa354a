"""What catalogues say of columns is what docs/tables.md says."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from sfcdc_assets.schema_evolution.column_descriptions import OF_THE_SYSTEM, column_description
from sfcdc_assets.timeline.version_columns import END_COLUMNS, SYSTEM_COLUMNS
from sfcdc_assets_tests.documentation import ROOT

COLUMNS = [field.name for field in (*SYSTEM_COLUMNS, *END_COLUMNS)]


def told(column: str) -> str:
    """The first text that the page has of a column of `current_state` or `history`."""
    page = (ROOT / "docs" / "tables.md").read_text().split("\n## `current_state/<Entity>`\n", 1)[1]
    return next(text for text in re.findall(rf"^\| `{column}` \|[^|]*\| (.*) \|$", page, re.MULTILINE) if text)


def test_every_column_beside_an_objects_own_is_described() -> None:
    assert list(OF_THE_SYSTEM) == COLUMNS


@pytest.mark.parametrize("column", COLUMNS)
def test_a_description_has_the_words_of_the_docs(column: str) -> None:
    def words(text: str) -> set[str]:
        return set(re.findall(r"\w+", text.lower()))

    missing = words(told(column)) - words(OF_THE_SYSTEM[column])
    assert not missing


def test_a_field_has_its_label_and_what_became_of_it() -> None:
    labels = {"Name": "Account Name", "Phone": "Phone"}
    assert column_description(pa.field("Name", pa.string()), labels) == "Account Name."
    assert column_description(pa.field("Site", pa.string()), labels) is None
    hashed = pa.field("Phone", pa.string(), metadata={"salesforce.hashed": "1"})
    assert column_description(hashed, labels) == "Phone. A keyed hash of its values (SFCDC_HASH)."
    kept = column_description(pa.field("Rank__c__before_1", pa.string()), labels)
    assert kept == "Values of Rank__c from before its type changed, which do not convert."
