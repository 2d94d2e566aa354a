"""The columns with names of what lookups point to: which there are, and what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml

from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription
from sfcdc_assets.sql.lookup_names import LookupName, lookup_columns, name_of_record
from sfcdc_assets.sql.users import user_columns
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process
from sfcdc_assets_tests.pipeline.story import story

pytestmark = pytest.mark.slow


def lookup(name: str, relationship: str, *to: str) -> FieldDescription:
    return FieldDescription(
        name, name, "reference", 18, 0, 0, 0, True, False, False, False, None, None, relationship, to
    )


def schema_of(*columns: str, hashed: str = "") -> pa.Schema:
    return pa.schema(
        [
            pa.field(each, pa.string(), metadata={"salesforce.hashed": "1"} if each == hashed else None)
            for each in columns
        ]
    )


FIELDS = (
    lookup("AccountId", "Account", "Account"),
    lookup("Account__c", "Account__r", "Account"),
    lookup("WhatId", "What", "Opportunity", "Account", "Case"),
    lookup("OwnerId", "Owner", "Group", "User"),
    lookup("CreatedById", "CreatedBy", "User"),
    lookup("RecordTypeId", "RecordType", "RecordType"),
    lookup("Site__c", "Site__r", "Site__c"),
)
DESCRIBED = ObjectDescription("X__c", "X", "a00", True, True, FIELDS)
COPIED = ("Account", "Case", "Group", "User", "RecordType")
USERS = {"OwnerId": "owner_name", "CreatedById": "created_by_name"}


def test_each_lookup_to_what_is_copied_has_a_column_and_those_of_users_keep_theirs() -> None:
    schema = schema_of(*(each.name for each in FIELDS))
    assert lookup_columns(schema, DESCRIBED, COPIED, USERS) == {
        "AccountId": LookupName("account_name", ("Account",)),
        "Account__c": LookupName("account__c_name", ("Account",)),
        "WhatId": LookupName("what_name", ("Account", "Case")),
        "OwnerId": LookupName("owner_name", ("Group", "User")),
    }


def test_a_hashed_id_leads_nowhere_and_a_name_that_is_taken_is_not_given_twice() -> None:
    schema = schema_of("AccountId", "WhatId", hashed="WhatId")
    assert lookup_columns(schema, DESCRIBED, COPIED, USERS, ["what_name"]).keys() == {"AccountId"}
    assert lookup_columns(schema, DESCRIBED, COPIED, USERS, ["account_name"]) == {}


def test_a_field_that_was_made_again_in_another_case_keeps_the_name_beside_its_column() -> None:
    described = ObjectDescription(
        "X__c", "X", "a00", True, True, (lookup("Site__c", "Site__r", "Account"), lookup("Boss__c", "Boss__r", "User"))
    )
    schema = schema_of("site__c", "boss__c")
    assert lookup_columns(schema, described, COPIED, {}) == {
        "site__c": LookupName("site__c_name", ("Account",)),
        "boss__c": LookupName("boss__c_name", ("User",)),
    }
    assert user_columns(schema, described) == {"boss__c": "boss__c_name"}
    assert lookup_columns(schema_of("site__c", hashed="site__c"), described, COPIED, {}) == {}


def test_a_record_is_called_by_its_name_field_a_person_by_the_parts_of_the_name() -> None:
    assert name_of_record(schema_of("Id", "CaseNumber"), "CaseNumber") == 'CAST("CaseNumber" AS VARCHAR)'
    assert name_of_record(schema_of("Id", "FirstName", "LastName"), "Name") == (
        'concat_ws(\' \', "FirstName", "LastName")'
    )
    assert name_of_record(schema_of("Id", "Name"), None) == "concat_ws(' ', \"Name\")"
    assert name_of_record(schema_of("Id", "CaseNumber", "Name", hashed="CaseNumber"), "CaseNumber") is None
    assert name_of_record(schema_of("Id"), None) is None


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[EmulatedPipeline]:
    with batches_in_this_process(), story(tmp_path / "org", ("Account", "Contact", "Case", "Task")) as pipeline:
        yield pipeline


def asked(statement: str, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(sfcdc("sql", "--json", *options, statement).stdout)
    return found


def test_views_have_the_names_of_what_lookups_point_to_where_labels_are_asked_for(pipeline: EmulatedPipeline) -> None:
    org = pipeline.org
    accounts, contact, case, task = (ids(org, each) for each in ("Account", "Contact", "Case", "Task"))
    with org.transaction() as work:
        work.update("Account", accounts[0], {"Name": "Zeta", "ParentId": accounts[1]})
        work.update("Account", accounts[1], {"Name": "Alpha"})
        work.update("Contact", contact[0], {"FirstName": "Ada", "LastName": "Byron", "AccountId": accounts[0]})
        work.update("Case", case[0], {"AccountId": accounts[0], "ContactId": contact[0], "ParentId": case[1]})
        work.update("Task", task[0], {"WhoId": contact[0], "WhatId": case[0]})
        work.update("Task", task[1], {"WhoId": None, "WhatId": accounts[1]})
    pipeline.sync()
    numbers = {str(each["Id"]): each["CaseNumber"] for each in org.records("Case")}
    beside = "account_name, contact_name, parent_name, owner_name IS NOT NULL AS has_owner"
    expected = {
        "account_name": "Zeta",
        "contact_name": "Ada Byron",
        "parent_name": numbers[case[1]],
        "has_owner": False,  # User is not copied here
    }
    for view in ('"case"', "case_history"):
        rows = asked(f"SELECT {beside} FROM {view} WHERE \"Id\" = '{case[0]}' ORDER BY _valid_from DESC", "--labels")
        assert rows[0] == expected, view
    tasks = asked('SELECT "Id", who_name, what_name FROM task', "--labels")
    names = {each["Id"]: (each["who_name"], each["what_name"]) for each in tasks}
    assert names[task[0]] == ("Ada Byron", numbers[case[0]])
    assert names[task[1]] == (None, "Alpha")
    assert len(names) == len(tasks) == len(task)
    assert sfcdc("sql", 'SELECT account_name FROM "case"').exit_code == 1, "they are not there unless asked for"

    for form in ("--duckdb", "--live"):
        file = f"views{form}.duckdb"
        assert sfcdc("views", "--labels", form, file).exit_code == 0
        with duckdb.connect(file, read_only=True) as views:
            row = views.execute(f'SELECT {beside} FROM "case" WHERE "Id" = \'{case[0]}\'').fetchone()
            assert row == tuple(expected.values()), form
    (source,) = yaml.safe_load(sfcdc("dbt-sources", "--labels").stdout)["sources"]
    columns = next(table["columns"] for table in source["tables"] if table["name"] == "task")
    described = {column["name"]: column.get("description", "") for column in columns}
    assert len(described) == len(columns), "no column is listed twice"
    assert described["what_name"] == "Name of the Account or Case in WhatId, as it is now."
