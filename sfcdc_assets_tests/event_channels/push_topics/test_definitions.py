"""Definitions in files: one a topic, and errors that name file and field (Streaming API Developer Guide,
"PushTopic")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.event_channels.push_topics.definition import API_NAMES, NotifyForFields, PushTopic
from sfcdc_assets.event_channels.push_topics.definition_files import read_definitions
from sfcdc_assets.event_channels.push_topics.errors import TopicFileError
from sfcdc_assets.event_channels.push_topics.plan import Action, OrgTopic, plan
from sfcdc_assets.event_channels.push_topics.topic_query import topic_query
from sfcdc_assets_tests.documentation import ROOT, code_blocks

GOOD: dict[str, Any] = {"Name": "Good", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 64.0}


def write(folder: Path, file: str, values: dict[str, Any] | str) -> Path:
    if not isinstance(values, str):
        # JSON writes texts, numbers and truths as TOML does.
        values = "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
    (folder / file).write_text(values)
    return folder / file


def test_a_file_has_the_fields_of_the_record_and_the_orgs_defaults(tmp_path: Path) -> None:
    text = '''
    Name = "InvoiceStatementUpdates"
    Query = """
      SELECT Id, Name, Status__c
      FROM Invoice_Statement__c
    """
    ApiVersion = 64.0
    NotifyForOperationDelete = false
    '''
    file = write(tmp_path, "invoices.toml", text)
    write(tmp_path, "notes.txt", "no definition")
    assert read_definitions(tmp_path) == {
        file: PushTopic(
            "InvoiceStatementUpdates",
            "SELECT Id, Name, Status__c FROM Invoice_Statement__c",
            64.0,
            notify_for_operation_delete=False,
        )
    }
    (topic,) = read_definitions(tmp_path).values()
    assert topic.channel == "/topic/InvoiceStatementUpdates"
    assert topic.operations == ("created", "updated", "undeleted")
    assert topic.values().keys() == API_NAMES.keys() >= {"NotifyForOperationUndelete", "IsActive", "ApiVersion"}
    assert topic.notify_for_fields is NotifyForFields.REFERENCED


def test_a_folder_that_is_not_there_has_no_definitions(tmp_path: Path) -> None:
    assert read_definitions(tmp_path / "none") == {}


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"Name": "x" * 26}, "Name", f"STRING_TOO_LONG, Name: data value too large: {'x' * 26} (max length=25)"),
    ({"Name": ""}, "Name", "REQUIRED_FIELD_MISSING, Required fields are missing: [Name]"),
    ({"Query": ""}, "Query", "REQUIRED_FIELD_MISSING, Required fields are missing: [Query]"),
    ({"Query": "SELECT Id FROM Account WHERE Name = '" + "x" * 1_300 + "'"}, "Query", "(max length=1300)"),
    ({"Description": "x" * 401}, "Description", "(max length=400)"),
    ({"ApiVersion": 20.0}, "ApiVersion", "ApiVersion must be an API version greater than 20.0"),
    ({"ApiVersion": "64"}, "ApiVersion", "INVALID_TYPE, ApiVersion is a str, not a number such as 64.0"),
    ({"NotifyForFields": "Some"}, "NotifyForFields", "bad value for restricted picklist field: Some"),
    ({"IsActive": "yes"}, "IsActive", "INVALID_TYPE, IsActive is a str, not true or false"),
    ({"Name": 7}, "Name", "INVALID_TYPE, Name is a int, not a text"),
    ({"Colour": "red"}, "Colour", "INVALID_FIELD, No such column 'Colour' on sobject of type PushTopic"),
]


@pytest.mark.parametrize(("values", "field", "text"), BAD)
def test_a_wrong_definition_is_refused_with_the_vendors_text_the_file_and_the_field(
    tmp_path: Path, values: dict[str, Any], field: str, text: str
) -> None:
    file = write(tmp_path, "topic.toml", {**GOOD, **values})
    with pytest.raises(TopicFileError) as refused:
        read_definitions(tmp_path)
    assert str(refused.value).startswith(f"{file}, {field}: ")
    assert text in str(refused.value)


def test_what_is_no_toml_and_two_files_of_one_name_are_named(tmp_path: Path) -> None:
    write(tmp_path, "a.toml", "Name =")
    with pytest.raises(TopicFileError, match=r"a\.toml: is not TOML"):
        read_definitions(tmp_path)
    write(tmp_path, "a.toml", GOOD)
    write(tmp_path, "b.toml", {**GOOD, "Name": "GOOD"})
    with pytest.raises(TopicFileError, match=r"b\.toml, Name: DUPLICATE_VALUE, GOOD is defined in .*a\.toml too"):
        read_definitions(tmp_path)


def test_the_page_shows_a_definition_that_is_taken(tmp_path: Path) -> None:
    (block,) = [each for each in code_blocks(ROOT / "docs" / "push-topics.md") if each.language == "toml"]
    (topic,) = read_definitions(write(tmp_path, "invoices.toml", block.text).parent).values()
    assert topic_query(topic.query).compared == ("Status__c",)


def in_org(topic: PushTopic, number: int = 1) -> OrgTopic:
    return OrgTopic(f"0IF00000000000{number}AAA", topic)


def test_a_plan_creates_changes_and_deactivates_and_never_deletes() -> None:
    def topic(name: str, **values: Any) -> PushTopic:
        return PushTopic.of({**GOOD, "Name": name, **values})

    ours = [topic("New"), topic("Same"), topic("Other", NotifyForFields="All"), topic("Old", IsActive=False)]
    theirs = [topic("Same"), topic("OTHER"), topic("Old"), topic("Theirs")]
    found = plan(ours, [in_org(each, number) for number, each in enumerate(theirs)])
    assert [(step.action, step.topic.name) for step in found.steps] == [
        (Action.DEACTIVATE, "Old"),
        (Action.CHANGE, "Other"),
        (Action.CREATE, "New"),
    ]
    assert [step.values() for step in found.steps[:2]] == [
        {"IsActive": False},
        {"Name": "Other", "NotifyForFields": NotifyForFields.ALL},
    ]
    assert found.steps[2].id is None
    assert found.steps[2].values() == topic("New").values()
    assert (found.unchanged, found.not_ours) == (("Same",), ("Theirs",))
    assert str(found.steps[1].changes[1]) == "NotifyForFields: Referenced -> All"


def test_an_applied_plan_is_followed_by_none() -> None:
    ours = [PushTopic.of({**GOOD, "Name": name}) for name in "ab"]
    assert plan(ours, [in_org(each) for each in ours]).steps == ()
