"""Lists of preferences in events: checkboxes in tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sfcdc_assets.change_events import Column, ColumnType, EventDecoder, columns
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets_tests.change_events.written_event import (
    bitmap_of,
    described_object,
    event_schema,
    header,
    optional,
    payload,
)

LIST = {"type": "array", "items": "string"}
SCHEMA = event_schema(
    optional("Username", "string", doc="Data:Text"),
    optional("EmailPreferences", LIST, doc="Data:BitVector"),
    optional("UserPreferences", LIST, doc="Data:BitVector"),
    optional("UserPreferences2", LIST, doc="Data:BitVector"),
    optional("IsActive", "boolean", doc="Data:Boolean"),
    entity="User",
)
NAMES = (
    "EmailPreferencesAutoBcc",
    "EmailPreferencesStayInTouch",
    "UserPreferencesPopup",
    "UserPreferencesSound",
    "UserPreferencesLightning",
)
EMAIL, USER = NAMES[:2], NAMES[2:]
BOTH = ("UserPreferences", "UserPreferences2")


def describe(*booleans: str, formula: Mapping[str, Any] | None = None) -> ObjectDescription:
    fields = [{"name": "Id", "type": "id"}, {"name": "Username", "type": "string"}]
    fields += [{"name": name, "type": "boolean"} for name in ("IsActive", *booleans)]
    return described_object([*fields, *([formula] if formula else [])])


COLUMNS = columns(SCHEMA, describe(*NAMES))


def read(
    kind: str, lists: Mapping[str, Sequence[str] | None], touched: Sequence[str] = (), nulled: Sequence[str] = (),
    made: Sequence[Column] = COLUMNS,
) -> tuple[dict[str, Any], str | None]:  # fmt: skip
    head = header(
        kind, entityName="User", changedFields=bitmap_of(SCHEMA, *touched), nulledFields=bitmap_of(SCHEMA, *nulled)
    )
    decoded = EventDecoder(json.dumps(SCHEMA), made).decode(payload(SCHEMA, head, lists))
    named = {made[index].name: value for index, value in decoded.cells}
    assert len(named) == len(decoded.cells), "a column twice"
    return named, decoded.missing


def test_each_checkbox_has_a_column_and_the_lists_have_none() -> None:
    assert [column.name for column in COLUMNS] == ["Id", "Username", "IsActive", *NAMES]
    assert {column.type for column in COLUMNS[2:]} == {ColumnType.BOOLEAN}


def test_a_new_user_has_the_named_ones_and_no_others() -> None:
    lists = {"EmailPreferences": None, "UserPreferences": [USER[0]], "UserPreferences2": [USER[2]]}
    expected = {"Username": None, "IsActive": None, **dict.fromkeys(NAMES, False), USER[0]: True, USER[2]: True}
    assert read("CREATE", lists) == (expected, None)


@pytest.mark.parametrize("sent", [[EMAIL[1]], ["StayInTouch"]])
def test_a_touched_list_sets_all_of_its_group_and_nothing_else(sent: list[str]) -> None:
    assert read("UPDATE", {"EmailPreferences": sent}, ["EmailPreferences"]) == ({EMAIL[0]: False, EMAIL[1]: True}, None)


@pytest.mark.parametrize(("value", "nulled"), [([], ()), (None, ()), (None, ["EmailPreferences"])])
def test_a_touched_list_without_a_name_says_that_none_is_true(value: list[str] | None, nulled: Sequence[str]) -> None:
    none = dict.fromkeys(EMAIL, False)
    assert read("UPDATE", {"EmailPreferences": value}, ["EmailPreferences"], nulled) == (none, None)
    assert read("UPDATE", {"EmailPreferences": value}, (), nulled) == (none if nulled else {}, None)


def test_a_list_that_was_not_touched_says_nothing() -> None:
    assert read("UPDATE", {"EmailPreferences": [EMAIL[0]], "Username": "a"}, ["Username"]) == ({"Username": "a"}, None)


def test_one_of_two_lists_tells_the_true_ones_and_leaves_the_others_open() -> None:
    reported, missing = read("UPDATE", {"UserPreferences": [USER[1]]}, ["UserPreferences"])
    assert reported == {USER[1]: True}
    assert missing is not None
    assert missing.startswith("UserPreferences: ")


def test_both_lists_together_leave_nothing_open() -> None:
    reported, missing = read("UPDATE", {BOTH[0]: [USER[1]], BOTH[1]: []}, BOTH)
    assert (reported, missing) == ({**dict.fromkeys(USER, False), USER[1]: True}, None)


def test_a_name_that_is_no_checkbox_makes_nothing_false() -> None:
    reported, missing = read("UPDATE", {"EmailPreferences": [EMAIL[0], "Other"]}, ["EmailPreferences"])
    assert reported == {EMAIL[0]: True}
    assert missing == "EmailPreferences: EmailPreferencesOther is no checkbox of the object"


def test_more_checkboxes_than_a_group_has_leave_open_which_are_its_own() -> None:
    for count in (32, 33):
        names = [f"EmailPreferences{number}" for number in range(count)]
        made = columns(SCHEMA, describe(*names))
        reported, missing = read("UPDATE", {"EmailPreferences": names[:1]}, ["EmailPreferences"], made=made)
        assert len(reported) == (32 if count == 32 else 1)
        assert (missing is None) == (count == 32)


def test_a_new_user_leaves_nothing_open_however_many_groups_a_list_holds() -> None:
    names = [f"EmailPreferences{number}" for number in range(40)]
    reported, missing = read("CREATE", {"EmailPreferences": names[:1]}, made=columns(SCHEMA, describe(*names)))
    assert ({name for name in names if reported[name]}, missing) == ({names[0]}, None)


def test_a_list_without_checkboxes_is_dropped() -> None:
    reported, missing = read("CREATE", {"EmailPreferences": ["A"]}, made=columns(SCHEMA, describe()))
    assert (reported, missing) == ({"Username": None, "IsActive": None}, None)


def test_lists_whose_beginnings_overlap_share_their_checkboxes() -> None:
    schema = event_schema(optional("Prefs", LIST), optional("PrefsMail", LIST), entity="User")
    made = columns(schema, described_object([{"name": name, "type": "boolean"} for name in ("PrefsA", "PrefsMailB")]))
    decoder = EventDecoder(json.dumps(schema), made)
    for touched, cells in ((["Prefs"], []), (["PrefsMail"], []), (["Prefs", "PrefsMail"], [(1, False), (2, False)])):
        decoded = decoder.decode(payload(schema, header(changedFields=bitmap_of(schema, *touched)), {}))
        assert (decoded.cells, decoded.missing is None) == (cells, bool(cells))


@pytest.mark.parametrize("more", [{"calculated": True}, {"name": "EmailPreferencesFormula__c"}])
def test_a_formula_that_is_named_like_a_preference_is_none(more: dict[str, Any]) -> None:
    described = describe(*EMAIL, formula={"name": "EmailPreferencesFormula", "type": "boolean", **more})
    assert [column.name for column in columns(SCHEMA, described)][3:] == list(EMAIL)
