"""Which columns are left out, which are hashed, and what a table has that the settings do not allow."""

from __future__ import annotations

import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column, arrow_schema, columns_of_arrow_schema
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE, FieldPattern, Privacy, PrivacyConflict
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.settings import Settings, load_settings

SECRET = "a key that no message tells"
KEY = HashKey.of(SECRET)
COLUMNS = (
    Column("Id", ColumnType.STRING, False, "id"),
    Column("FirstName", ColumnType.STRING, False, "string"),
    Column("LastName", ColumnType.STRING, False, "string"),
    Column("MailingCity", ColumnType.STRING, False, "string"),
    Column("MailingLatitude", ColumnType.DOUBLE, False, "double"),
    Column("Phone", ColumnType.STRING, False, "phone"),
    Column("Email", ColumnType.STRING, False, "email"),
    Column("Birthdate", ColumnType.DATE, False, "date"),
    Column("Description", ColumnType.STRING, True, "textarea"),
)
COMPOUNDS = {
    "FirstName": ["Name"],
    "LastName": ["Name"],
    "MailingCity": ["MailingAddress"],
    "MailingLatitude": ["MailingAddress"],
}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))


def privacy(exclude: str = "", hash_: str = "") -> Privacy:
    return Privacy.of(Settings(exclude=exclude, hash=hash_, hash_key=SECRET))


def shape(rules: Privacy, entity: str = "Contact") -> dict[str, str]:
    """Column -> `hashed` or its type, of those that tables get."""
    made = rules.columns(entity, COLUMNS, COMPOUNDS)
    return {column.name: "hashed" if column.hash_key else column.type.value for column in made}


def left_out(rules: Privacy, entity: str = "Contact") -> set[str]:
    return {column.name for column in COLUMNS} - shape(rules, entity).keys()


def hashed(rules: Privacy, entity: str = "Contact") -> set[str]:
    return {name for name, how in shape(rules, entity).items() if how == "hashed"}


@pytest.mark.parametrize(
    ("pattern", "entity", "names"),
    [
        ("Contact.Email", "Contact", {"Email"}),
        ("Contact.Email", "Lead", set()),
        ("contact.email", "Contact", set()),
        ("*.Phone", "Lead", {"Phone"}),
        ("Contact.Ma*", "Contact", {"MailingCity", "MailingLatitude"}),
        ("Con*.*mail", "Contact", {"Email"}),
        ("Contact.MailingAddress", "Contact", {"MailingCity", "MailingLatitude"}),
        ("Contact.Name", "Contact", {"FirstName", "LastName"}),
        ("*.*", "Contact", {column.name for column in COLUMNS} - {"Id"}),
        ("Contact.I[d]", "Contact", set()),
        ("Contact.Nothing", "Contact", set()),
        (" Contact.Email , *.Phone,", "Contact", {"Email", "Phone"}),
    ],
)
def test_patterns_name_columns_and_compounds_their_components(pattern: str, entity: str, names: set[str]) -> None:
    assert left_out(privacy(exclude=pattern), entity) == names
    assert hashed(privacy(hash_=pattern), entity) == names


def test_leaving_out_wins_over_hashing() -> None:
    rules = privacy(exclude="*.Email", hash_="Contact.*")
    assert left_out(rules) == {"Email"}
    assert hashed(rules) == {column.name for column in COLUMNS} - {"Id", "Email"}


def test_a_hashed_column_is_text_and_remembers_what_it_was() -> None:
    made = {column.name: column for column in privacy(hash_="Contact.*").columns("Contact", COLUMNS, COMPOUNDS)}
    assert {column.type for column in made.values()} == {ColumnType.STRING}
    assert made["Birthdate"].plain_type is ColumnType.DATE
    assert made["Birthdate"].salesforce_type == "date"
    assert made["Birthdate"].plain() == COLUMNS[7]
    assert made["Description"].large_text
    assert not made["Description"].keeps_texts
    assert COLUMNS[8].keeps_texts


def test_what_a_table_has_beyond_the_settings_is_found_and_what_it_lacks_is_not() -> None:
    table = columns_of_arrow_schema(arrow_schema(COLUMNS))
    assert privacy().conflicts("Contact", table, COMPOUNDS) == ()
    now = privacy(exclude="Contact.Email", hash_="*.Birthdate")
    expected = (PrivacyConflict("Email", "left out"), PrivacyConflict("Birthdate", "hashed"))
    assert now.conflicts("Contact", table, COMPOUNDS) == expected
    assert str(expected[0]) == "Email is to be left out"

    table = columns_of_arrow_schema(arrow_schema(now.columns("Contact", COLUMNS, COMPOUNDS)))
    assert now.conflicts("Contact", table, COMPOUNDS) == ()
    assert privacy(hash_="*.Birthdate").conflicts("Contact", table, COMPOUNDS) == (), "a column that comes is new"
    assert privacy().conflicts("Contact", table, COMPOUNDS) == (PrivacyConflict("Birthdate", "hashed no longer"),)
    other = Privacy(now.excluded, now.hashed, HashKey.of("another key"))
    assert other.conflicts("Contact", table, COMPOUNDS) == (PrivacyConflict("Birthdate", "hashed with another key"),)
    assert privacy().columns("Contact", table, COMPOUNDS)[-2] == COLUMNS[7]


def test_it_is_known_which_entities_a_rule_is_about() -> None:
    rules = privacy(exclude="Contact.Email", hash_="L*.Phone")
    assert [rules.concerns(entity) for entity in ("Contact", "Lead", "Account", None)] == [True, True, False, True]
    assert not NOTHING_PRIVATE.concerns(None)
    assert rules.unmatched({"Contact": ["Email"], "Lead": ["Fax"]}) == ("L*.Phone",)


def test_a_rule_to_hash_without_a_key_hides_nothing_silently() -> None:
    with pytest.raises(ValueError, match="there is no key"):
        Privacy(hashed=(FieldPattern("Contact", "Email"),))


@pytest.mark.parametrize(
    ("environment", "setting", "reported"),
    [
        ({"SFCDC_EXCLUDE": "Contact"}, "SFCDC_EXCLUDE", "'Contact' does not name columns"),
        ({"SFCDC_EXCLUDE": "Contact.Account.Name"}, "SFCDC_EXCLUDE", "does not name columns"),
        ({"SFCDC_EXCLUDE": "Contact. Email"}, "SFCDC_EXCLUDE", "does not name columns"),
        ({"SFCDC_EXCLUDE": ".Email"}, "SFCDC_EXCLUDE", "does not name columns"),
        ({"SFCDC_EXCLUDE": "*.Email,*.Id"}, "SFCDC_EXCLUDE", "Id is what the copy is kept with"),
        ({"SFCDC_HASH": "Contact.Id", "SFCDC_HASH_KEY": SECRET}, "SFCDC_HASH", "can be neither left out nor hashed"),
        ({"SFCDC_HASH": "Contact.Email"}, "SFCDC_HASH_KEY", "SFCDC_HASH needs a key"),
        ({"SFCDC_HASH": "Contact.Email", "SFCDC_HASH_KEY": ""}, "SFCDC_HASH_KEY", "SFCDC_HASH needs a key"),
        ({"SFCDC_PAYLOAD_RETENTION_DAYS": "2"}, "SFCDC_PAYLOAD_RETENTION_DAYS", "greater than or equal to 3"),
    ],
)
def test_a_wrong_setting_is_named(
    environment: dict[str, str], setting: str, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert refused.value.setting == setting
    assert reported in refused.value.problem
    assert SECRET not in str(refused.value)


def test_the_key_is_in_no_text_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_HASH", "*.Email")
    monkeypatch.setenv("SFCDC_HASH_KEY", SECRET)
    settings = load_settings()
    for reported in (repr(settings), str(settings), settings.model_dump_json(), repr(Privacy.of(settings))):
        assert SECRET not in reported
