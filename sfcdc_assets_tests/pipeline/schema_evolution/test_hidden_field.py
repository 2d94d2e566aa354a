"""A field that was hidden from the client and is shown: what events say of it while it has no column is not its value,
then and in a rebuild."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of, versions_of

pytestmark = pytest.mark.slow

FIELD = "Description"
TEXT = "\n".join(["what nobody could read"] * 60)


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as opened:
        opened.org.field_security.hide(ENTITY, FIELD)
        opened.sync()
        yield opened


def made_while_hidden(pipeline: QuietPipeline) -> str:
    """A record with a text, and the field shown after its event was applied; it changes before it is read again."""
    with pipeline.org.transaction() as work:
        record_id = work.create(ENTITY, {"Name": "Hidden", FIELD: TEXT})
    pipeline.catch_up()
    assert FIELD not in pipeline.rows()[record_id]
    pipeline.org.field_security.show(ENTITY, FIELD)
    pipeline.update(record_id, Phone="1")
    pipeline.catch_up()
    return str(record_id)


def certain_of(pipeline: QuietPipeline, record_id: str) -> list[tuple[str, Any]]:
    """The kind of each version of a record, and its certain fields."""
    rows = (row for row in versions_of(pipeline.warehouse, ENTITY) if row["Id"] == record_id)
    return [
        (row["_change_type"], row["_certain_fields"]) for row in sorted(rows, key=lambda each: int(each["_position"]))
    ]


def in_order(pipeline: QuietPipeline) -> dict[str, list[dict[str, Any]]]:
    """The rows of each layer, whatever the order of the columns, which is another one in a rebuild."""
    return {
        layer: sorted(rows, key=lambda row: sorted(map(str, row.items()))) for layer, rows in pipeline.layers().items()
    }


def test_the_null_of_a_create_from_before_the_field_was_shown_is_no_text_and_no_value_in_a_rebuild_either(
    pipeline: QuietPipeline,
) -> None:
    record_id = made_while_hidden(pipeline)
    pipeline.sync()
    pipeline.assert_equal()
    texts = [row for row in rows_of(pipeline.warehouse, f"text_fields/{ENTITY}") if row["field"] == FIELD]
    of_record = [(row["value"], row["origin"]) for row in texts if row["record_id"] == record_id]
    assert of_record == [(TEXT, "snapshot")]
    before = in_order(pipeline)
    pipeline.rebuild()
    assert in_order(pipeline) == before


def test_until_it_is_read_no_version_from_after_the_column_came_calls_its_null_certain(pipeline: QuietPipeline) -> None:
    record_id = made_while_hidden(pipeline)
    (_, of_create), (kind, of_update) = certain_of(pipeline, record_id)
    assert of_create is None, "it says all of the columns that there were"
    assert (kind, "Phone" in of_update, FIELD in of_update) == ("UPDATE", True, False)
    pipeline.sync()
    assert certain_of(pipeline, record_id)[1:] == [("UPDATE", of_update), ("SNAPSHOT", None)]
    untouched = next(each for each in pipeline.ids() if each != record_id)
    pipeline.update(untouched, Phone="2")
    pipeline.catch_up()
    assert [fields for _, fields in certain_of(pipeline, untouched)][-1] is None


@pytest.mark.parametrize("named", [False, True])
def test_what_events_say_of_a_field_while_it_is_hidden_is_not_its_value_and_none_is_certain_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Whether or not their bitmaps name it; and what is built again is the same."""
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.settings(hidden_fields_in_bitmaps=named)
        pipeline.sync()
        record_id = pipeline.ids()[0]
        pipeline.update(record_id, Site="before")
        pipeline.catch_up()
        pipeline.org.field_security.hide(ENTITY, "Site")
        pipeline.update(record_id, Site="meanwhile", Phone="1")
        with pipeline.org.transaction() as work:
            new_id = str(work.create(ENTITY, {"Name": "New", "Site": "at first"}))
        pipeline.catch_up()
        assert [pipeline.rows()[each]["Site"] for each in (record_id, new_id)] == ["before", None]
        pipeline.org.field_security.show(ENTITY, "Site")
        for each in (record_id, new_id):
            pipeline.update(each, Phone="2")
        pipeline.catch_up()
        for each in (record_id, new_id):
            assert "Site" not in certain_of(pipeline, each)[-1][1], "nothing has reported it yet"
        pipeline.sync()
        assert [pipeline.rows()[each]["Site"] for each in (record_id, new_id)] == ["meanwhile", "at first"]
        assert {certain_of(pipeline, each)[-1][1] for each in (record_id, new_id)} == {None}
        pipeline.assert_equal()
        before = in_order(pipeline)
        pipeline.rebuild()
        assert in_order(pipeline) == before


def test_the_null_of_a_create_that_had_landed_as_its_field_was_shown_is_not_certain_until_it_is_read(
    pipeline: QuietPipeline,
) -> None:
    with pipeline.org.transaction() as work:
        record_id = str(work.create(ENTITY, {"Name": "Hidden", FIELD: TEXT}))
    pipeline.poll()
    pipeline.org.field_security.show(ENTITY, FIELD)
    pipeline.update(record_id, Phone="1")
    pipeline.catch_up()
    create, update = certain_of(pipeline, record_id)
    assert [(kind, "Phone" in fields, FIELD in fields) for kind, fields in (create, update)] == [
        ("CREATE", True, False),
        ("UPDATE", True, False),
    ]
    pipeline.sync()
    assert certain_of(pipeline, record_id) == [create, update, ("SNAPSHOT", None)]
    pipeline.assert_equal()
    before = in_order(pipeline)
    pipeline.rebuild()
    assert in_order(pipeline) == before


@pytest.mark.parametrize("was_there", [False, True], ids=["shown for the first time", "shown again"])
def test_the_null_of_an_event_that_was_on_its_way_as_its_field_was_shown_is_not_certain_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    with quiet(tmp_path, monkeypatch) as pipeline:
        if was_there:
            pipeline.sync()
        pipeline.org.field_security.hide(ENTITY, FIELD)
        pipeline.sync()
        pipeline.update(pipeline.ids()[0], Phone="1")
        pipeline.poll()
        pipeline.settings(publishing_lag=600_000)
        with pipeline.org.transaction() as work:
            record_id = str(work.create(ENTITY, {"Name": "Hidden", FIELD: TEXT}))
        pipeline.org.field_security.show(ENTITY, FIELD)
        pipeline.catch_up()
        assert record_id not in pipeline.rows()
        assert FIELD in pipeline.rows()[pipeline.ids()[0]], "the field was found before the event came"
        pipeline.clock.advance(600_000)
        pipeline.catch_up()
        ((kind, fields),) = certain_of(pipeline, record_id)
        assert (kind, "Name" in fields, FIELD in fields) == ("CREATE", True, False)
        pipeline.sync()
        assert certain_of(pipeline, record_id) == [(kind, fields), ("SNAPSHOT", None)]
        pipeline.assert_equal()
        pipeline.update(record_id, **{FIELD: None})
        pipeline.clock.advance(600_000)
        pipeline.catch_up()
        assert certain_of(pipeline, record_id)[-1] == ("UPDATE", None), "a null after the copy is one"
        pipeline.assert_equal()
        before = in_order(pipeline)
        pipeline.rebuild()
        assert in_order(pipeline) == before


def test_the_value_of_a_field_that_was_made_again_in_another_case_is_not_certain_until_it_is_read(
    pipeline: QuietPipeline,
) -> None:
    options = {"type": "string", "length": 40}
    pipeline.org.setup.add_field(ENTITY, "Region__c", options, values=lambda _: "old")
    pipeline.sync()
    record_id = pipeline.ids()[0]
    pipeline.org.setup.drop_field(ENTITY, "Region__c")
    pipeline.org.setup.add_field(ENTITY, "rEGION__c", options, values=lambda _: "new")
    pipeline.update(record_id, Phone="1")
    pipeline.catch_up()
    kind, fields = certain_of(pipeline, record_id)[-1]
    assert (kind, "Phone" in fields, "Region__c" in fields) == ("UPDATE", True, False)
    pipeline.sync()
    assert pipeline.rows()[record_id]["Region__c"] == "new"
    assert certain_of(pipeline, record_id)[-1] == ("SNAPSHOT", None)


def test_a_create_from_before_its_field_was_made_does_not_prove_that_the_field_is_empty(
    pipeline: QuietPipeline,
) -> None:
    """A field may be filled in all records as it is made, without an event (a renamed one has its values too)."""
    with pipeline.org.transaction() as work:
        record_id = str(work.create(ENTITY, {"Name": "Early"}))
    pipeline.org.setup.add_field(ENTITY, "Region__c", {"type": "string", "length": 40}, values=lambda _: "EMEA")
    pipeline.update(record_id, Phone="1")
    pipeline.catch_up()
    versions = certain_of(pipeline, record_id)
    assert [(kind, "Name" in fields, "Region__c" in fields) for kind, fields in versions] == [
        ("CREATE", True, False),
        ("UPDATE", True, False),
    ]
    pipeline.sync()
    assert pipeline.rows()[record_id]["Region__c"] == "EMEA"
    assert certain_of(pipeline, record_id)[-1] == ("SNAPSHOT", None)


@pytest.mark.parametrize(
    ("before", "after", "value", "now"),
    [
        ({"type": "double", "precision": 18, "scale": 2}, {"type": "boolean"}, 7.5, False),
        ({"type": "string", "length": 40}, {"type": "string", "length": 7}, "sevenandmore", "sevenan"),
    ],
    ids=["another type", "shorter"],
)
def test_a_value_from_before_its_field_was_retyped_is_not_certain_after_the_next_event(
    pipeline: QuietPipeline, before: dict[str, Any], after: dict[str, Any], value: object, now: object
) -> None:
    """A change of type raises no event, whatever it makes of the values, and has its place anywhere among them."""
    pipeline.org.setup.add_field(ENTITY, "Size__c", before)
    pipeline.sync()
    with pipeline.org.transaction() as work:
        record_id = str(work.create(ENTITY, {"Name": "Early", "Size__c": value}))
    pipeline.org.setup.change_type(ENTITY, "Size__c", after)
    pipeline.update(record_id, Phone="1")
    pipeline.catch_up()
    pipeline.sync()
    _, (kind, of_update), (last, of_copy) = certain_of(pipeline, record_id)
    assert (kind, "Phone" in of_update, "Size__c" in of_update) == ("UPDATE", True, False)
    assert (last, of_copy) == ("SNAPSHOT", None)
    assert pipeline.rows()[record_id]["Size__c"] == now
    rows = in_order(pipeline)
    pipeline.rebuild()
    assert in_order(pipeline) == rows


def test_what_a_text_was_while_its_field_was_hidden_it_is_also_once_the_field_has_another_type(
    pipeline: QuietPipeline,
) -> None:
    """What does not convert is beside the column, which is null for it then, in a rebuild as in the table that was
    written again; a null that hides a value leaves both as they were."""
    pipeline.settings(hidden_fields_in_bitmaps=True)
    pipeline.org.setup.add_field(ENTITY, "Size__c", {"type": "string", "length": 40})
    carried, hidden = pipeline.ids()[:2]
    for record_id, text in ((carried, "true"), (carried, "large"), (hidden, "kept")):
        pipeline.update(record_id, Size__c=text)
    pipeline.catch_up()
    pipeline.org.field_security.hide(ENTITY, "Size__c")
    pipeline.update(hidden, Size__c="what nobody could read")
    pipeline.catch_up()
    pipeline.org.field_security.show(ENTITY, "Size__c")
    pipeline.update(carried, Phone="1")
    pipeline.catch_up()
    pipeline.sync()
    pipeline.org.setup.change_type(ENTITY, "Size__c", {"type": "boolean"})
    pipeline.update(carried, Phone="2")
    pipeline.catch_up()
    pipeline.sync()
    versions = [(row["Id"], row["Size__c"], row["Size__c__before_1"]) for row in in_order(pipeline)["history"]]
    assert {(carried, True, None), (carried, None, "large"), (hidden, None, "kept")} <= set(versions)
    before = in_order(pipeline)
    pipeline.rebuild()
    assert in_order(pipeline) == before
