"""Files that describe what is pushed to generic channels: read once, wrong ones named with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets.event_channels.payload_schema import PayloadSchemaError, payload_schemas, read_payload_schema
from sfcdc_assets.runtime.errors import SettingsError

GOOD = 'channel = "/u/Orders"\n[columns]\nid = "string"\ncity = { type = "string", path = "address.city" }\n'


def test_members_without_a_column_are_left_over_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "orders.toml").write_text(GOOD)
    schema = payload_schemas(tmp_path)["/u/Orders"]
    body = {"id": "1", "address": {"city": "Oslo", "zip": 7, "geo": {}}, "note": None}
    assert schema.taken_apart(body) == (
        {"id": "1", "city": "Oslo"},
        {"address.zip": 7, "address.geo": {}, "note": None},
    )
    assert schema.taken_apart({"address": "Oslo"}) == ({"id": None, "city": None}, {"address": "Oslo"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("channel = ", "cannot be read"),
        ('channel = "/data/ChangeEvents"\n[columns]\na = "int"', "not a generic channel"),
        ('channel = "/u/X"', "no columns"),
        ('channel = "/u/X"\n[columns]\na = "number"', "a: 'number' is no type"),
        ('channel = "/u/X"\n[columns]\n"a b" = "int"', "no name of a column"),
        ('channel = "/u/X"\n[columns]\na = "int"\nA = "int"', "but for the case"),
        ('channel = "/u/X"\n[columns]\na = "int"\nb = { type = "int", path = "a.b" }', "a part of"),
        ('channel = "/u/X"\n[columns]\na = { type = "int", path = "a..b" }', "no path"),
        ('channel = "/u/X"\n[columns]\na = { type = "int", why = "?" }', "'why' is unknown"),
        ('channel = "/u/X"\ncolumn = 1\n[columns]\na = "int"', "'column' is unknown"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(PayloadSchemaError, match=problem) as raised:
        read_payload_schema(path)
    assert str(path) in str(raised.value)


def test_two_files_of_one_channel_and_a_folder_that_is_missing_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(GOOD)
    with pytest.raises(PayloadSchemaError, match="another file describes /u/Orders"):
        payload_schemas(tmp_path)
    with pytest.raises(SettingsError, match="SFCDC_CHANNEL_SCHEMAS: there is no folder"):
        payload_schemas(tmp_path / "missing")
    assert payload_schemas(None) == {}
