"""A field that was hidden from the client and is shown: what events say of it while it has no column is not its value,
then and in a rebuild."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets_tests.pipeline.lives.lives_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, QuietLife, quiet

pytestmark = pytest.mark.slow

FIELD = "Description"
TEXT = "\n".join(["what nobody could read"] * 60)


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as opened:
        opened.org.field_security.hide(ENTITY, FIELD)
        opened.sync()
        yield opened


def made_while_hidden(life: QuietLife) -> str:
    """A record with a text, and the field shown after its event was applied; it changes before it is read again."""
    with life.org.transaction() as work:
        record_id = work.create(ENTITY, {"Name": "Hidden", FIELD: TEXT})
    life.catch_up()
    assert FIELD not in life.rows()[record_id]
    life.org.field_security.show(ENTITY, FIELD)
    life.update(record_id, Phone="1")
    life.catch_up()
    return str(record_id)


def certain_of(life: QuietLife, record_id: str) -> list[tuple[str, Any]]:
    """The kind of each version of a record, and its certain fields."""
    rows = (row for row in versions_of(life.warehouse, ENTITY) if row["Id"] == record_id)
    return [
        (row["_change_type"], row["_certain_fields"]) for row in sorted(rows, key=lambda each: int(each["_position"]))
    ]


def in_order(life: QuietLife) -> dict[str, list[dict[str, Any]]]:
    """The rows of each layer, whatever the order of the columns, which is another one in a rebuild."""
    return {layer: sorted(rows, key=lambda row: sorted(map(str, row.items()))) for layer, rows in life.layers().items()}


def test_the_null_of_a_create_from_before_the_field_was_shown_is_no_text_and_no_value_in_a_rebuild_either(
    life: QuietLife,
) -> None:
    record_id = made_while_hidden(life)
    life.sync()
    life.assert_equal()
    texts = [row for row in rows_of(life.warehouse, f"text_fields/{ENTITY}") if row["field"] == FIELD]
    of_record = [(row["value"], row["origin"]) for row in texts if row["record_id"] == record_id]
    assert of_record == [(TEXT, "snapshot")]
    before = in_order(life)
    life.rebuild()
    assert in_order(life) == before


def test_until_it_is_read_no_version_from_after_the_column_came_calls_its_null_certain(life: QuietLife) -> None:
    record_id = made_while_hidden(life)
    (_, of_create), (kind, of_update) = certain_of(life, record_id)
    assert of_create is None, "it says all of the columns that there were"
    assert (kind, "Phone" in of_update, FIELD in of_update) == ("UPDATE", True, False)
    life.sync()
    assert certain_of(life, record_id)[1:] == [("UPDATE", of_update), ("SNAPSHOT", None)]
    untouched = next(each for each in life.ids() if each != record_id)
    life.update(untouched, Phone="2")
    life.catch_up()
    assert [fields for _, fields in certain_of(life, untouched)][-1] is None


@pytest.mark.parametrize("named", [False, True])
def test_what_events_say_of_a_field_while_it_is_hidden_is_not_its_value_and_none_is_certain_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Whether or not their bitmaps name it; and what is built again is the same."""
    with quiet(tmp_path, monkeypatch) as life:
        life.settings(hidden_fields_in_bitmaps=named)
        life.sync()
        record_id = life.ids()[0]
        life.update(record_id, Site="before")
        life.catch_up()
        life.org.field_security.hide(ENTITY, "Site")
        life.update(record_id, Site="meanwhile", Phone="1")
        with life.org.transaction() as work:
            new_id = str(work.create(ENTITY, {"Name": "New", "Site": "at first"}))
        life.catch_up()
        assert [life.rows()[each]["Site"] for each in (record_id, new_id)] == ["before", None]
        life.org.field_security.show(ENTITY, "Site")
        for each in (record_id, new_id):
            life.update(each, Phone="2")
        life.catch_up()
        for each in (record_id, new_id):
            assert "Site" not in certain_of(life, each)[-1][1], "nothing has told it yet"
        life.sync()
        assert [life.rows()[each]["Site"] for each in (record_id, new_id)] == ["meanwhile", "at first"]
        assert {certain_of(life, each)[-1][1] for each in (record_id, new_id)} == {None}
        life.assert_equal()
        before = in_order(life)
        life.rebuild()
        assert in_order(life) == before


def test_the_null_of_a_create_that_had_landed_as_its_field_was_shown_is_not_certain_until_it_is_read(
    life: QuietLife,
) -> None:
    with life.org.transaction() as work:
        record_id = str(work.create(ENTITY, {"Name": "Hidden", FIELD: TEXT}))
    life.poll()
    life.org.field_security.show(ENTITY, FIELD)
    life.update(record_id, Phone="1")
    life.catch_up()
    create, update = certain_of(life, record_id)
    assert [(kind, "Phone" in fields, FIELD in fields) for kind, fields in (create, update)] == [
        ("CREATE", True, False),
        ("UPDATE", True, False),
    ]
    life.sync()
    assert certain_of(life, record_id) == [create, update, ("SNAPSHOT", None)]
    life.assert_equal()
    before = in_order(life)
    life.rebuild()
    assert in_order(life) == before


def test_the_value_of_a_field_that_was_made_again_in_another_case_is_not_certain_until_it_is_read(
    life: QuietLife,
) -> None:
    options = {"type": "string", "length": 40}
    life.org.setup.add_field(ENTITY, "Region__c", options, values=lambda _: "old")
    life.sync()
    record_id = life.ids()[0]
    life.org.setup.drop_field(ENTITY, "Region__c")
    life.org.setup.add_field(ENTITY, "rEGION__c", options, values=lambda _: "new")
    life.update(record_id, Phone="1")
    life.catch_up()
    kind, fields = certain_of(life, record_id)[-1]
    assert (kind, "Phone" in fields, "Region__c" in fields) == ("UPDATE", True, False)
    life.sync()
    assert life.rows()[record_id]["Region__c"] == "new"
    assert certain_of(life, record_id)[-1] == ("SNAPSHOT", None)


def test_a_create_from_before_its_field_was_made_does_not_prove_that_the_field_is_empty(life: QuietLife) -> None:
    """A field may be filled in all records as it is made, without an event (a renamed one has its values too)."""
    with life.org.transaction() as work:
        record_id = str(work.create(ENTITY, {"Name": "Early"}))
    life.org.setup.add_field(ENTITY, "Region__c", {"type": "string", "length": 40}, values=lambda _: "EMEA")
    life.update(record_id, Phone="1")
    life.catch_up()
    versions = certain_of(life, record_id)
    assert [(kind, "Name" in fields, "Region__c" in fields) for kind, fields in versions] == [
        ("CREATE", True, False),
        ("UPDATE", True, False),
    ]
    life.sync()
    assert life.rows()[record_id]["Region__c"] == "EMEA"
    assert certain_of(life, record_id)[-1] == ("SNAPSHOT", None)
