"""Fields whose type is changed while the org lives: the column follows, and no value is lost
(docs/salesforce-streams.md, "Field type conversions")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, assert_same_rows, expected_rows, ids
from sfcdc_assets_tests.pipeline.reconciliation.test_rebuild import rebuilt_to_the_same_rows, rows
from sfcdc_assets_tests.pipeline.story import go_on, ledger, story, unhealed

pytestmark = pytest.mark.slow

TEXTS = ["12", "12.50", "abc", "1e3", "x" * 39, "0x1"]
FIELDS: dict[str, tuple[dict[str, Any], list[Any], dict[str, Any], str]] = {
    "Widened__c": ({"type": "int"}, [1, -5, 2_000_000], {"type": "double", "precision": 18, "scale": 2}, "none"),
    "Told__c": ({"type": "double", "precision": 18, "scale": 2}, [1.5, 2.0, 1e10], {"type": "string"}, "none"),
    "Parsed__c": ({"type": "string", "length": 40}, TEXTS, {"type": "double", "precision": 18, "scale": 2}, "wildcard"),
    "Choice__c": ({"type": "picklist", "values": ["A", "B"]}, ["A", "B"], {"type": "multipicklist"}, "gaps"),
    "Ticked__c": ({"type": "picklist", "values": ["true", "no"]}, ["true", "no"], {"type": "boolean"}, "gaps"),
    "Moment__c": ({"type": "date"}, ["2024-02-29", "1969-12-31"], {"type": "datetime"}, "wildcard"),
    "Day__c": ({"type": "datetime"}, ["2024-02-29T10:15:00Z", "2024-03-01T00:00:00Z"], {"type": "date"}, "wildcard"),
    "Rounded__c": (
        {"type": "double", "precision": 18, "scale": 4},
        [1.25, 2.0, 3.9999],
        {"type": "double", "precision": 18, "scale": 0},
        "none",
    ),
    "Cut__c": (
        {"type": "string", "length": 40},
        ["short", "longer than seven"],
        {"type": "string", "length": 7},
        "none",
    ),
    "Essay__c": ({"type": "long_text", "length": 131_072}, ["a line\n" * 300, "12"], {"type": "date"}, "wildcard"),
}
"""Field: what it is, its records' values in turn, what it becomes, and how events tell of it."""


@pytest.fixture(scope="module")
def retyped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Accounts with values of every such field, before and after the types were changed; caught up."""
    with story(tmp_path_factory.mktemp("retyped"), ("Account",)) as pipeline:
        org = pipeline.org
        for name, (before, values, _, _) in FIELDS.items():
            order = iter(values * 20)
            org.setup.add_field("Account", name, before, values=lambda row, order=order: next(order))
        pipeline.sync()
        first, second, third = ids(org, "Account")[:3]
        with org.transaction() as work:
            work.update("Account", first, {"Parsed__c": "from an event", "Essay__c": "another line\n" * 200})
            work.update("Account", second, {"Parsed__c": "77", "Moment__c": "2025-01-01"})
        with org.transaction() as work:
            work.update("Account", first, {"Essay__c": "another line\n" * 100 + "!\n" + "another line\n" * 100})
        pipeline.sync()
        pipeline.assert_equal_to_the_org()
        for name, (_, _, after, notice) in FIELDS.items():
            assert org.setup.change_type("Account", name, after).notice == notice, name
        with org.transaction() as work:
            work.update("Account", third, {"Parsed__c": 4.25, "Phone": "after the change"})
        pipeline.sync()
        with org.transaction() as work:
            work.update("Account", first, {"Parsed__c": -1.0, "Ticked__c": True, "Moment__c": "2025-06-07T08:09:10Z"})
        pipeline.sync()
        yield pipeline


def kept(pipeline: EmulatedPipeline, name: str) -> list[Any]:
    """What a column has of earlier values, in any order, without repetitions."""
    return sorted({row[name] for row in pipeline.rows("Account").values()} - {None})


def test_the_column_has_the_new_type_and_the_org_s_values(retyped: EmulatedPipeline) -> None:
    found, expected = retyped.rows("Account"), expected_rows(retyped.org, "Account")
    own = {name for row in expected.values() for name in row}
    assert_same_rows(
        "Account", {i: {n: v for n, v in r.items() if n in own or n[0] == "_"} for i, r in found.items()}, expected
    )
    assert not unhealed(retyped)


def test_values_that_do_not_convert_stay_beside_in_the_type_they_had(retyped: EmulatedPipeline) -> None:
    assert kept(retyped, "Parsed__c__before_1") == sorted({"abc", "x" * 39, "0x1", "from an event"})
    assert kept(retyped, "Ticked__c__before_1") == ["no"]
    assert [moment.hour for moment in kept(retyped, "Day__c__before_1")] == [10]
    assert len(kept(retyped, "Essay__c__before_1")) == 3
    schema = pa.schema(retyped.table("current_state/Account").schema().to_arrow())
    beside = {field.name for field in schema if "__before_" in field.name}
    assert beside == {f"{name}__c__before_1" for name in ("Parsed", "Ticked", "Day", "Essay")}, "all others widened"


def test_history_has_each_value_in_one_of_the_two_columns(retyped: EmulatedPipeline) -> None:
    first = ids(retyped.org, "Account")[0]
    versions = rows(retyped, "history", "Account").filter(pl.col("Id") == first)
    chain = list(zip(versions["Parsed__c"], versions["Parsed__c__before_1"], strict=True))
    assert chain[0] == (12.0, None)
    assert (None, "from an event") in chain
    assert chain[-1] == (-1.0, "from an event")
    marked = {entry["reason"] for entry in ledger(retyped) if entry["record_id"] == "*"}
    assert "retyped_field" in marked


def test_the_layers_are_rebuilt_to_the_same_rows(retyped: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on(retyped, monkeypatch)
    rebuilt_to_the_same_rows(retyped, "Account")


def test_a_date_that_became_a_time_has_its_time_of_day_though_the_schema_keeps_its_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A schema's id does not depend on the docs, and of a date and a time nothing else differs."""
    with story(tmp_path, ("Account",)) as pipeline:
        org = pipeline.org
        org.setup.add_field("Account", "Moment__c", {"type": "date"}, values=lambda row: "2024-02-29")
        pipeline.sync()
        first = ids(org, "Account")[0]
        for moment in ("2024-03-01", "2025-06-07T08:09:10Z"):
            with org.transaction() as work:
                work.update("Account", first, {"Moment__c": moment})
            pipeline.sync()
            org.setup.change_type("Account", "Moment__c", {"type": "datetime"})
            pipeline.sync()
        events = [row for row in rows(pipeline, "history", "Account").iter_rows(named=True) if row["Id"] == first]
        assert {each["Moment__c"].hour for each in events if each["_change_type"] == "UPDATE"} == {0, 8}
        pipeline.assert_equal_to_the_org()
