"""The Delta tables in a Glue catalog, against a server of its API that others wrote."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.glue_catalog import GlueRefused, glue_tables, register, register_all
from sfcdc_assets_tests.sql.small_warehouse import small_warehouse, tables_of

ENTITIES = ("Account", "Invoice__c")


@mock_aws
def test_each_table_is_registered_once_with_columns_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    client = boto3.client("glue", region_name="eu-central-1")
    client.create_database(DatabaseInput={"Name": "crm"})
    tables = tables_of(small_warehouse(tmp_path, ENTITIES))
    for _ in range(2):
        for each in glue_tables(Warehouse("s3://lake/org"), tables):
            register(client, "crm", each)
    found = {each["Name"]: each for each in client.get_tables(DatabaseName="crm")["TableList"]}
    assert set(found) == {f"{layer}_{each.lower()}" for each in ENTITIES for layer in ("current_state", "history")}
    account = found["current_state_account"]
    assert account["StorageDescriptor"]["Location"] == "s3://lake/org/current_state/Account/"
    assert account["Parameters"]["table_type"] == "DELTA"
    types = {each["Name"]: each["Type"] for each in account["StorageDescriptor"]["Columns"]}
    assert (types["id"], types["_valid_from"], types["_changed_fields"]) == ("string", "timestamp", "array<string>")


def test_a_warehouse_in_a_folder_is_refused(tmp_path: Path) -> None:
    warehouse = small_warehouse(tmp_path, ENTITIES[:1])
    with pytest.raises(GlueRefused, match="is not in S3"):
        register_all(warehouse, tables_of(warehouse), "crm")
