"""Preferences of users through the pipeline: checkboxes in REST and in the table, lists of the true ones in events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, Rows
from sfcdc_assets_tests.pipeline.rest_records import RestRecords, differences
from sfcdc_assets_tests.pipeline.story import go_on, ledger, story, unhealed

EMAIL = "EmailPreferencesAutoBcc"
OTHER_EMAIL = "EmailPreferencesStayInTouchReminder"
SOUND = "UserPreferencesReminderSoundOff"
FEEDS = "UserPreferencesDisableAllFeedsEmail"
LIGHTNING = "UserPreferencesLightningExperiencePreferred"


@dataclass
class Users:
    """Users by what happens to them."""

    pipeline: EmulatedPipeline
    rest: RestRecords
    ids: list[str]
    added: dict[str, object]
    """A row after the preferences appeared, before anything else happened."""

    @property
    def rows(self) -> Rows:
        return self.pipeline.rows("User")


def user(number: int, **values: object) -> dict[str, object]:
    return {
        "Username": f"u{number}@example.com", "LastName": f"L{number}", "Email": "u@example.com", "Alias": f"u{number}",
        "TimeZoneSidKey": "Europe/Berlin", "LocaleSidKey": "de_DE", "EmailEncodingKey": "UTF-8",
        "LanguageLocaleKey": "de", **values,
    }  # fmt: skip


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    folder = tmp_path_factory.mktemp("users")
    with story(folder, ["User"], records=2) as pipeline, pytest.MonkeyPatch.context() as patch:
        # The org's id as Setup shows it.
        patch.setenv("SFCDC_ORG_ID", pipeline.org.organization_id[:15])
        rest = RestRecords(pipeline)
        first = rest.create("User", [user(0)])[0]
        pipeline.sync()

        pipeline.org.setup.add_user_preferences()
        set_before = {EMAIL: True, SOUND: True, LIGHTNING: True}
        ids = [first, *rest.create("User", [user(number, **set_before) for number in range(1, 6)])]
        pipeline.sync()
        description = Users(pipeline, rest, ids, pipeline.rows("User")[first])

        ids += rest.create("User", [user(6, **set_before)])
        _, email, none, sound, both, touched, _ = ids
        rest.update("User", {email: {OTHER_EMAIL: True}})
        rest.update("User", {none: {EMAIL: False}})
        rest.update("User", {sound: {SOUND: False, FEEDS: True}})
        rest.update("User", {both: {SOUND: False, LIGHTNING: False, FEEDS: True}})
        rest.update("User", {touched: {"Title": "Dr."}})
        pipeline.sync()
        yield description


def test_the_table_has_a_column_for_each_checkbox_and_holds_what_rest_gives(users: Users) -> None:
    boxes = [name for name, kind in users.rest.types("User").items() if "Preferences" in name and kind == "boolean"]
    assert len(boxes) == 43
    assert all(users.added[name] is False for name in boxes), "read from the org when the fields appeared"
    rows = users.rows
    assert all(isinstance(row[name], bool) for row in rows.values() for name in boxes)
    assert differences(rows, users.rest.rows("User", list(rows))) == []
    users.pipeline.assert_equal_to_the_org()


def test_a_touched_group_sets_its_own_checkboxes_and_no_others(users: Users) -> None:
    shown = (EMAIL, OTHER_EMAIL, SOUND, FEEDS, LIGHTNING)
    _, email, none, sound, both, touched, created = (
        [name for name in shown if users.rows[record_id][name]] for record_id in users.ids
    )
    assert email == [EMAIL, OTHER_EMAIL, SOUND, LIGHTNING]
    assert none == [SOUND, LIGHTNING]
    assert sound == [EMAIL, FEEDS, LIGHTNING]
    assert both == [EMAIL, FEEDS]
    assert touched == created == [EMAIL, SOUND, LIGHTNING]


def test_only_the_users_whose_list_left_something_open_were_read_back(users: Users) -> None:
    found = {(each["record_id"], each["reason"]) for each in ledger(users.pipeline, "User") if each["record_id"] != "*"}
    assert found == {(record_id, "missing_value") for record_id in users.ids[3:5]}
    assert unhealed(users.pipeline) == []


def test_a_checkbox_switched_on_and_off_in_one_sync_is_certain_only_where_it_was_reported(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(users.pipeline, monkeypatch)
    record_id = users.rest.create("User", [user(7)])[0]
    users.pipeline.sync()
    for values in ({SOUND: True}, {SOUND: False}, {"Title": "Dr."}):
        users.pipeline.org.clock.advance(60_000)
        users.rest.update("User", {record_id: values})
    users.pipeline.sync()
    found = [row for row in users.pipeline.all_versions("User") if row["Id"] == record_id]
    found.sort(key=lambda row: (row["_position"], row["_valid_to"] is None))
    certain = [each["_certain_fields"] is None or SOUND in each["_certain_fields"] for each in found]
    assert [each["_change_type"] for each in found] == ["CREATE", "UPDATE", "UPDATE", "UPDATE", "REFETCH"]
    assert certain == [True, True, False, False, True]
    assert [each[SOUND] for each, known in zip(found, certain, strict=True) if known] == [False, True, False]
    assert found[-1]["_certain_fields"] is None
    created, on, off, other = (each["_valid_from"] for each in found[:4])
    assert created < on < off < other
    assert [marked_at(users, record_id, moment) for moment in (created, off)] == [False, True]


def marked_at(users: Users, record_id: str, moment: datetime) -> bool:
    """Whether `sfcdc sql --at` marks the user's row."""
    query = f"SELECT _in_doubt FROM user WHERE \"Id\" = '{record_id}'"
    result = sfcdc("sql", "--json", "--at", moment.isoformat(), query)
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)
    return bool(row["_in_doubt"])
