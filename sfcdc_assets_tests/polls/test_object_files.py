"""Files that say how single objects are polled."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from sfcdc_assets.doctor.polls import files_of_none, readable
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.polls.object_files import AS_ALL, ObjectFileError, ObjectPolling, read_object_files
from sfcdc_assets.polls.polled_objects import PollSelection, PollSettings
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.settings.given_settings import settings_of

DESCRIBED = ObjectDescription.from_json(
    {"name": "Invoice__c", "fields": [{"name": name, "type": "string"} for name in ("Id", "Name", "SystemModstamp")]}
)


def written(folder: Path, text: str, name: str = "Invoice__c.toml") -> Path:
    (folder / name).write_text(text)
    return folder


def test_a_file_says_what_is_otherwise_for_its_object_in_any_case(tmp_path: Path) -> None:
    text = 'seconds = 60\ncount_hours = 2\nwhere = "CreatedDate >= 2025-01-01T00:00:00Z"\nfields = ["Status__c"]'
    settings = PollSettings(own=read_object_files(written(tmp_path, text)))
    assert settings.of("invoice__C") == ObjectPolling(
        seconds=60, count_hours=2, where="CreatedDate >= 2025-01-01T00:00:00Z", fields=("Status__c",)
    )
    assert settings.seconds_of("Invoice__c") == 60
    assert (settings.count_seconds_of("Invoice__c"), settings.count_seconds_of("Account")) == (7_200, 86_400)
    assert settings.of("Account") == AS_ALL


def test_without_a_folder_all_objects_are_alike_and_one_that_a_setting_names_has_to_be_there(tmp_path: Path) -> None:
    assert read_object_files(tmp_path / "none") == {}
    given = {"warehouse": str(tmp_path), "poll": ["Case"], "access_token": "a", "instance_url": "https://a.example"}
    with connect(settings_of(given)) as org:
        assert org.poll.own == {}
    given |= {"poll_objects": str(tmp_path / "none")}
    refused = pytest.raises(SettingsError, match=r"SFCDC_POLL_OBJECTS: there is no folder .*none\. Create it")
    with refused, connect(settings_of(given)):
        pass


def test_doctor_names_files_of_objects_that_are_not_polled_and_fields_that_there_are_not(tmp_path: Path) -> None:
    own = read_object_files(written(tmp_path, 'fields = ["Statu__c", "name"]'))
    assert list(files_of_none(PollSelection(("Invoice__c",), {}), own)) == []
    (mistyped,) = files_of_none(PollSelection(("Invoices__c",), {}), own)
    assert "not polled: invoice__c" in mistyped.found
    (named,) = [each.found for each in readable(DESCRIBED, own["invoice__c"]) if "its file" in each.found.lower()]
    assert named.endswith("may not read: Statu__c.")
    assert not any("Statu__c" in finding.found for finding in readable(DESCRIBED))


def test_doctor_names_files_that_are_not_copied_and_not_those_that_are_asked_for() -> None:
    kinds = {"Id": "id", "SystemModstamp": "datetime", "Body": "base64", "Photo__c": "base64"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    described = ObjectDescription.from_json({"name": "Attachment", "fields": fields})

    def said(own: ObjectPolling) -> list[str]:
        return [each.found for each in readable(described, own) if "not copied" in each.found]

    assert said(AS_ALL) == ["Files are not copied: Body, Photo__c."]
    assert said(ObjectPolling(fields=("Name", "body"))) == ["Files are not copied: Photo__c."]
    assert said(ObjectPolling(fields=("Body", "Photo__c"))) == []


def test_what_is_looked_at_once_a_day_is_looked_at_as_often_as_the_settings_say(tmp_path: Path) -> None:
    given = {"warehouse": str(tmp_path), "poll": ["Case"], "access_token": "a", "instance_url": "https://a.example"}
    given |= {"poll_seconds": 60, "poll_reread_hours": 3, "poll_count_hours": 5, "poll_overlap_minutes": 30}
    with connect(settings_of(given)) as org:
        poll = org.poll
    assert (poll.seconds_of("Case"), poll.reread_seconds_of("Case"), poll.count_seconds_of("Case")) == (
        60,
        3 * 3600,
        5 * 3600,
    )
    assert poll.overlap_of("Case") == timedelta(minutes=30)
    assert replace(poll, own={"case": ObjectPolling(reread_minutes=5)}).overlap_of("Case") == timedelta(minutes=5)


@pytest.mark.parametrize(
    "condition",
    ["Id > '001000000000001'", "CreatedDate >= 2025-01-01T00:00:00.000Z AND CreatedDate < 2026-01-01T00:00:00Z"],
)
def test_a_condition_compares_ids_or_the_time_of_creation_with_fixed_values(tmp_path: Path, condition: str) -> None:
    assert read_object_files(written(tmp_path, f'where = "{condition}"'))["invoice__c"].where == condition


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("where = \"Status = 'Open'\"", "where: compares Id or CreatedDate"),
        ('where = "CreatedDate >= LAST_N_DAYS:30"', "without a change of theirs"),
        ("where = \"Id > 'x' OR Name = 'y'\"", "where"),
        ("seconds = 1", "seconds"),
        ('every = "day"', "every"),
        ('fields = ["Name; DROP"]', "no API name"),
        ("seconds", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ObjectFileError, match=problem) as refused:
        read_object_files(written(tmp_path, text))
    assert "Invoice__c.toml" in str(refused.value)


def test_a_file_is_named_after_its_object(tmp_path: Path) -> None:
    with pytest.raises(ObjectFileError, match="not that of an object"):
        read_object_files(written(tmp_path, "", "Invoice-2.toml"))
