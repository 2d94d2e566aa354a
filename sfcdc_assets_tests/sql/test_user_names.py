"""The columns with users' names: one for each lookup, whose name follows from the lookup alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription
from sfcdc_assets.sql.users import user_columns
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import ids
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process
from sfcdc_assets_tests.pipeline.story import story


def lookup(name: str, relationship: str) -> FieldDescription:
    return FieldDescription(
        name, name, "reference", 18, 0, 0, 0, True, False, False, False, None, None, relationship, ("User",)
    )


def columns_of(*fields: FieldDescription) -> dict[str, str]:
    described = ObjectDescription("X__c", "X", "a00", True, True, fields)
    return user_columns(pa.schema([(field.name, pa.string()) for field in fields]), described)


STANDARD = (
    lookup("OwnerId", "Owner"),
    lookup("CreatedById", "CreatedBy"),
    lookup("LastModifiedById", "LastModifiedBy"),
)
CUSTOM_NAMES = st.lists(
    st.from_regex(r"[A-Za-z](_?[A-Za-z0-9]){0,12}__c", fullmatch=True), unique_by=str.lower, max_size=6
)


@given(CUSTOM_NAMES)
def test_no_two_have_one_name_and_none_changes_when_a_field_is_added(names: list[str]) -> None:
    fields = [lookup(name, f"{name.removesuffix('__c')}__r") for name in names]
    found = columns_of(*STANDARD, *fields)
    assert len({beside.lower() for beside in found.values()}) == len(STANDARD) + len(fields)
    for field in (*STANDARD, *fields):
        assert columns_of(field)[field.name] == found[field.name]
    assert found["CreatedById"] == "created_by_name"


def test_two_lookups_of_one_stem_have_a_column_each_with_the_right_user_and_description(tmp_path: Path) -> None:
    with batches_in_this_process(), story(tmp_path / "org", ("Account", "User")) as pipeline:
        users = {str(row["Id"]): row for row in pipeline.org.records("User")}
        other = list(users)[-1]
        pipeline.org.setup.add_field(
            "Account", "Created_By__c", {"type": "reference", "to": "User"}, values=lambda row: other
        )
        pipeline.sync()
        with pipeline.org.transaction() as work:
            work.update("Account", ids(pipeline.org, "Account")[0], {"Phone": "1"})
        pipeline.sync()
        chosen = '"CreatedById", created_by_name, "Created_By__c", created_by__c_name'
        answered = sfcdc("sql", "--json", f'SELECT {chosen} FROM account WHERE "Created_By__c" IS NOT NULL')
        rows = json.loads(answered.stdout)
        assert rows
        for row in rows:
            for column, beside in (("CreatedById", "created_by_name"), ("Created_By__c", "created_by__c_name")):
                user = users[row[column]]
                assert row[beside] == " ".join(filter(None, (user.get("FirstName"), user.get("LastName"))))
        _explain_names_users_too(users, ids(pipeline.org, "Account")[0])
        (source,) = yaml.safe_load(sfcdc("dbt-sources").stdout)["sources"]
        columns = next(table["columns"] for table in source["tables"] if table["name"] == "account")
        described = {column["name"]: column.get("description", "") for column in columns}
        assert len(described) == len(columns), "no column is listed twice"
        assert "CreatedById" in described["created_by_name"]
        assert "Created_By__c" in described["created_by__c_name"]


def _explain_names_users_too(users: Mapping[str, Mapping[str, Any]], account: str) -> None:
    for field in ("OwnerId", "Phone"):
        links = [json.loads(line) for line in sfcdc("explain", "Account", account, field, "--json").stdout.splitlines()]
        assert links
        for link in links:
            for column in ("value", "commit_user"):
                user = users.get(link[column] or "", {})
                assert (link[f"{column}_name"] or "") == " ".join(
                    filter(None, (user.get("FirstName"), user.get("LastName")))
                )
    last = links[-1]
    assert last["commit_user_name"], "the update of the phone was made by somebody"
    shown = sfcdc("explain", "Account", account).stdout
    assert last["commit_user_name"] in shown
    assert last["commit_user"] not in shown.replace(f"({last['commit_user']})", "")


def test_standard_fields_have_names_in_words() -> None:
    assert columns_of(*STANDARD) == {
        "OwnerId": "owner_name",
        "CreatedById": "created_by_name",
        "LastModifiedById": "last_modified_by_name",
    }
