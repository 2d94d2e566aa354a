"""Which formula fields are read: those that the settings name, and none that shows what is withheld."""

from __future__ import annotations

import pytest

from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE, FieldPattern, Privacy
from sfcdc_assets.formulas.wanted_formulas import RefusedFormula, WantedFormulas, wanted_formulas
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.formulas.test_formula_columns import ACCOUNT, CONTACT, formula

DESCRIBE = {"Contact": CONTACT, "Account": ACCOUNT}.get


def wanted(*patterns: str, excluded: str = "") -> WantedFormulas:
    privacy = Privacy((FieldPattern.read(excluded),)) if excluded else NOTHING_PRIVATE
    return wanted_formulas(CONTACT, DESCRIBE, patterns, privacy)


def test_patterns_name_formulas_and_no_other_fields():
    assert wanted().names == ()
    assert set(wanted("*").names) == {"Text__c", "Of_Text__c", "Number__c", "Day__c", "At__c"}
    assert set(wanted("Contact.*t__c", "Contact.Deals__c", "Account.*").names) == {"Text__c", "Of_Text__c", "At__c"}


def test_only_what_is_read_is_followed():
    assert wanted("*").objects == {"Account"}
    assert wanted("Contact.Text__c").objects == frozenset()
    assert not wanted("Contact.Text__c").computed_from.names_time


def test_others_that_are_read_are_another_fingerprint():
    assert wanted("*").fingerprint == wanted("Contact.*").fingerprint != wanted("Contact.Text__c").fingerprint


def test_what_shows_a_withheld_field_is_withheld_with_the_reason():
    found = wanted("*", excluded="Contact.Email")
    assert found.withheld == {"Text__c": "it shows Contact.Email", "Of_Text__c": "it shows Contact.Email"}
    assert set(found.names) == {"Number__c", "Day__c", "At__c"}
    assert wanted("*", excluded="Contact.Day__c").withheld == {"Day__c": "it shows Contact.Day__c"}
    assert wanted("Contact.Day__c", excluded="Contact.Email").withheld == {}


def test_what_is_not_known_to_show_nothing_withheld_is_withheld_while_there_are_rules():
    of_user = ObjectDescription.from_json({"name": "Lead", "fields": [formula("Mine__c", "string", "$User.Email")]})
    every = {"Lead": of_user}.get
    assert wanted_formulas(of_user, every, ["*"], NOTHING_PRIVATE).names == ("Mine__c",)
    rules = Privacy((FieldPattern.read("User.Email"),))
    assert wanted_formulas(of_user, every, ["*"], rules).withheld == {"Mine__c": "Lead.Mine__c names $user.email"}


def test_what_the_org_did_not_compute_is_withheld_as_long_as_its_text_is_the_same():
    texts = {each.name: each.calculated_formula for each in CONTACT.fields}
    refused = {
        "Day__c": RefusedFormula(texts["Day__c"], "WHY: so", 1),
        "At__c": RefusedFormula("another", "WHY: so", 1),
    }
    found = wanted_formulas(CONTACT, DESCRIBE, ["*"], NOTHING_PRIVATE, refused)
    assert found.withheld == {"Day__c": "the org refuses it (WHY: so)"}
    assert set(found.refused) == {"Day__c"}
    assert set(found.names) == {"Text__c", "Of_Text__c", "Number__c", "At__c"}


@pytest.mark.parametrize(
    ("said", "patterns"),
    [("none", ()), ("All", ("*",)), ("*", ("*",)), ("Case.*,Account.Score__c", ("Case.*", "Account.Score__c"))],
)
def test_the_setting_takes_none_all_or_fields(monkeypatch: pytest.MonkeyPatch, said: str, patterns: tuple[str, ...]):
    monkeypatch.setenv("SFCDC_FORMULAS", said)
    assert load_settings().formulas == patterns


@pytest.mark.parametrize("said", ["none,Case.*", "Score__c", "everything"])
def test_what_names_no_field_is_refused(monkeypatch: pytest.MonkeyPatch, said: str):
    monkeypatch.setenv("SFCDC_FORMULAS", said)
    with pytest.raises(SettingsError, match="SFCDC_FORMULAS"):
        load_settings()
