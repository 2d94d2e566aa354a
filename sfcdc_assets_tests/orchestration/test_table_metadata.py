"""No value of a record and no text of an org is markup in Dagster, whatever stands in it."""

from __future__ import annotations

import ast
import re

import dagster as dg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sfcdc_assets.orchestration.table_metadata import COLUMNS, SAMPLE, partition_metadata, rows_value
from sfcdc_assets.runtime.foreign_text import markdown_text
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets_tests.test_imports import MODULES, PACKAGE

IMAGE = "![x](//evil.example/p)"
MARKS = st.sampled_from(
    (
        *(
            IMAGE,
            "<img src=//evil.example>",
            "[a](b)",
            "`",
            "|",
            "\n\n# ",
            "\n- ",
            "***",
            "&lt;",
            "https://evil.example",
        ),
        *("www.evil.example", "a@evil.example", "\\", "~~", "\r", "$x$", "[^1]", "==", "\t", "---"),
    )
)
HOSTILE = st.lists(st.one_of(MARKS, st.text(max_size=5)), max_size=6).map("".join)
PLAIN_TOKENS = {"paragraph_open", "paragraph_close", "inline"}


@given(HOSTILE)
def test_escaped_text_is_one_paragraph_of_text_and_shows_itself(text: str) -> None:
    written = markdown_text(text)
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(written)
    assert {token.type for token in tokens} <= PLAIN_TOKENS
    inline = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inline} <= {"text", "text_special"}
    seen = "".join(child.content for child in inline)
    assert not re.search(r"(?i)[a-z]://|www\.|[-.\w+]@", seen), "GitHub's Markdown makes links of these by itself"
    expected = " ".join(text.encode(errors="replace").decode().split()).replace("\x00", "\ufffd")
    assert seen.replace("\u2060", "").replace("\x00", "\ufffd") == expected.replace("\u2060", "")


@given(HOSTILE, HOSTILE)
def test_what_is_reported_of_a_table_holds_foreign_text_in_cells_and_escaped_descriptions_alone(
    value: str, label: str
) -> None:
    described = ObjectDescription.from_json({"name": "A", "fields": [{"name": "X", "type": "string", "label": label}]})
    sample = pa.table({"X": pa.array([value], pa.string())})
    metadata = partition_metadata("/w", "current_state/A", 1, sample.schema, sample, described=described)
    values = dg.AssetMaterialization("a", metadata=metadata).metadata
    assert not any(isinstance(each, dg.MarkdownMetadataValue) for each in values.values())
    shown = values[SAMPLE]
    assert isinstance(shown, dg.TableMetadataValue)
    (row,) = shown.records
    assert row.data["X"] in (value, value[:39] + "…")
    assert "dagster/column_schema" not in values, "it would be shown as the columns of all entities"
    schema = values[COLUMNS]
    assert isinstance(schema, dg.TableSchemaMetadataValue)
    text = schema.schema.columns[0].description or ""
    tokens = MarkdownIt("commonmark").parse(text)
    assert {child.type for token in tokens for child in token.children or ()} <= {"text", "text_special"}


def test_a_table_shows_numbers_that_a_browser_would_round_as_texts() -> None:
    (row,) = rows_value(("n", "b", "x"), [(2**53 + 1, True, None)]).records
    assert row.data == {"n": str(2**53 + 1), "b": True, "x": None}


@pytest.mark.parametrize("module", [module for module in MODULES if "emulator" not in module.parts], ids=str)
def test_no_module_makes_markdown_for_dagster(module) -> None:  # type: ignore[no-untyped-def]
    made = [
        node.attr
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("md", "MarkdownMetadataValue")
    ]
    assert made == [], f"{module.relative_to(PACKAGE)} would show foreign text as markup; use rows_value"
