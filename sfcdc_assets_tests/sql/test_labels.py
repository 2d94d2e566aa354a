"""The columns with labels: one for each picklist, whose name follows from the picklist alone."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription
from sfcdc_assets.sql.labels import label_columns
from sfcdc_assets.sql.users import user_columns


def field(name: str, kind: str = "picklist") -> FieldDescription:
    return FieldDescription(name, name, kind, 255, 0, 0, 0, True, False, False, False, None, None, None, ("User",))


def columns_of(*fields: FieldDescription, beside: tuple[str, ...] = (), hashed: str = "") -> dict[str, str]:
    described = ObjectDescription("X__c", "X", "a00", True, True, fields)
    metadata = {each.name: {"salesforce.hashed": "1"} if each.name == hashed else None for each in fields}
    schema = pa.schema([pa.field(each.name, pa.string(), metadata=metadata[each.name]) for each in fields])
    return {column: label.beside for column, label in label_columns(schema, described, beside).items()}


CUSTOM_NAMES = st.lists(
    st.from_regex(r"[A-Za-z](_?[A-Za-z0-9]){0,12}__(c|pc)", fullmatch=True), unique_by=str.lower, max_size=6
)


@given(CUSTOM_NAMES)
def test_no_two_have_one_name_and_none_changes_when_a_field_is_added(names: list[str]) -> None:
    fields = [field("LeadSource"), field("Salutation"), field("RecordTypeId", "reference"), *map(field, names)]
    found = columns_of(*fields)
    assert len(set(found.values())) == len(fields)
    for each in fields:
        assert columns_of(each)[each.name] == found[each.name]
    assert found["LeadSource"] == "lead_source_label"
    assert found["RecordTypeId"] == "record_type_name"


def test_only_picklists_have_labels_and_none_whose_values_are_hashed() -> None:
    fields = [field("Name", "string"), field("Rating"), field("Tier__c", "multipicklist")]
    assert columns_of(*fields) == {"Rating": "rating_label", "Tier__c": "tier__c_label"}
    assert columns_of(*fields, hashed="Rating") == {"Tier__c": "tier__c_label"}


def test_a_lookup_that_is_called_like_the_record_type_keeps_its_column() -> None:
    lookup, kind = field("Record_Type__c", "reference"), field("RecordTypeId", "reference")
    schema = pa.schema([(each.name, pa.string()) for each in (lookup, kind)])
    users = user_columns(schema, ObjectDescription("X__c", "X", "a00", True, True, (lookup,)))
    assert users == {"Record_Type__c": "record_type__c_name"}
    assert columns_of(kind, beside=("record_type_name",)) == {}, "a name that is taken is not given twice"
