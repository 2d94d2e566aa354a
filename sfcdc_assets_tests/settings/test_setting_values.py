"""Several orgs on one machine: whose settings count for whom, and what is refused before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.setting_values import OF_ONE_ORG, PREFIX, prefix_of, values_of
from sfcdc_assets.settings.settings import Settings, is_secret, load_settings
from sfcdc_assets_tests.environment import without_settings

FIELDS = tuple(Settings.model_fields)
ORGS = (None, "emea", "apac", "apac_2")


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Two orgs with a warehouse each, and nothing else."""
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for name, value in {"ORGS": "emea, APAC", "EMEA_WAREHOUSE": "/data/emea", "APAC_WAREHOUSE": "s3://b/apac"}.items():
        monkeypatch.setenv(PREFIX + name, value)
    return monkeypatch


def refused(org: str | None = None) -> str:
    with pytest.raises(SettingsError) as error:
        load_settings(org)
    return str(error.value)


def test_a_process_has_the_settings_of_the_org_that_it_serves(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("SFCDC_ENTITIES", "Account")
    settings.setenv("SFCDC_APAC_ENTITIES", "Contact,Lead")
    settings.setenv("SFCDC_ORG", "apac")
    served = load_settings()
    assert (served.org, served.warehouse, served.entities) == ("apac", "s3://b/apac", ("Contact", "Lead"))
    other = load_settings("emea")
    assert (other.org, other.warehouse, other.entities) == ("emea", "/data/emea", ("Account",))


def test_what_leads_to_one_org_is_never_taken_from_the_settings_of_all(settings: pytest.MonkeyPatch) -> None:
    for name in ("INSTANCE_URL", "LOGIN_URL"):
        settings.setenv(PREFIX + name, "https://us.my.salesforce.com")
    for name in ("ACCESS_TOKEN", "CLIENT_ID", "CLIENT_SECRET", "USERNAME", "PASSWORD", "SECURITY_TOKEN"):
        settings.setenv(PREFIX + name, "of the one org")
    served = load_settings("emea")
    assert (served.instance_url, served.login_url) == (None, "https://login.salesforce.com")
    assert not [field for field in OF_ONE_ORG - {"warehouse"} if field in served.model_fields_set - {"org", "orgs"}]


@given(st.dictionaries(st.tuples(st.sampled_from(ORGS), st.sampled_from(FIELDS)), st.text("ab", min_size=1)))
def test_an_org_has_its_own_value_or_that_of_all_and_never_another_orgs(given: dict[Any, str]) -> None:
    variables = {f"{prefix_of(org)}{field.upper()}": value for (org, field), value in given.items()}
    for org in ORGS:
        shared = {f: given[None, f] for f in FIELDS if (None, f) in given and (org is None or f not in OF_ONE_ORG)}
        own = {field: given[org, field] for field in FIELDS if (org, field) in given}
        assert values_of(org, variables, FIELDS) == {**shared, **own}


def test_options_of_spark_are_those_of_all_orgs_and_its_own(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("SFCDC_SPARK_CONF_spark.executor.memory", "1g")
    settings.setenv("SFCDC_SPARK_CONF_SPARK__DRIVER__MEMORY", "1g")
    settings.setenv("SFCDC_EMEA_SPARK_CONF_SPARK__DRIVER__MEMORY", "2g")
    assert load_settings("emea").spark_conf == {"spark.executor.memory": "1g", "spark.driver.memory": "2g"}
    assert load_settings("apac").spark_conf == {"spark.executor.memory": "1g", "spark.driver.memory": "1g"}


def test_a_file_has_settings_of_several_orgs_and_the_environment_wins(settings: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("SFCDC_ORG=emea\nSFCDC_EMEA_WAREHOUSE=from the file\nSFCDC_EMEA_USERNAME=me\n")
    assert (load_settings().warehouse, load_settings().username) == ("/data/emea", "me")


def test_settings_are_those_of_now_each_time_they_are_loaded(settings: pytest.MonkeyPatch) -> None:
    def found() -> tuple[str, float, frozenset[str]]:
        loaded = load_settings("emea")
        return loaded.warehouse, loaded.poll_seconds, frozenset(loaded.spark_conf.values())

    assert found() == ("/data/emea", 900.0, frozenset())
    Path(".env").write_text("SFCDC_POLL_SECONDS=60\n")
    settings.setenv("SFCDC_EMEA_WAREHOUSE", "/data/elsewhere")
    assert found() == ("/data/elsewhere", 60.0, frozenset())
    Path(".env").write_text("SFCDC_EMEA_POLL_SECONDS=70\nSFCDC_SPARK_CONF_spark.executor.memory=1g\n")
    assert found() == ("/data/elsewhere", 70.0, {"1g"})
    Path(".env").unlink()
    assert found() == ("/data/elsewhere", 900.0, frozenset())


def test_settings_are_loaded_as_their_class_reads_them_by_itself(settings: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("SFCDC_ENTITIES=Account\nSFCDC_EMEA_CLIENT_ID=app\nSFCDC_VANISH_ROWS=\n")
    settings.setenv("SFCDC_EMEA_CHANNELS", "cometd:/data/ChangeEvents,/event/Order__e")
    for org in ("emea", "APAC"):
        assert load_settings(org).model_dump() == Settings(org=org).model_dump()
    settings.setenv("SFCDC_ORG", "Emea")
    assert load_settings().model_dump() == Settings().model_dump()
    assert load_settings().model_fields_set == Settings().model_fields_set


def test_a_wrong_name_is_refused_whichever_org_is_served(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("SFCDC_APAC_ENTITES", "Account")
    assert refused("emea").startswith("SFCDC_APAC_ENTITES: is not a setting. Did you mean SFCDC_APAC_ENTITIES?")
    settings.delenv("SFCDC_APAC_ENTITES")
    settings.setenv("SFCDC_LATAM", "/data/latam")
    assert refused().startswith("SFCDC_LATAM: is not a setting.")


@pytest.mark.parametrize("name", ["SFCDC_LATAM_CLIENT_ID", "SFCDC_LATAM_2_WAREHOUSE", "sfcdc_latam_ENTITIES"])
def test_a_setting_of_an_org_that_was_renamed_or_removed_is_refused_and_no_other_one_is_suggested(
    settings: pytest.MonkeyPatch, name: str
) -> None:
    settings.setenv(name, "of latam")
    said = refused("emea")
    assert said.startswith(f"{name}: belongs to no org of SFCDC_ORGS (emea, apac). Add latam")
    assert "Did you mean" not in said


def test_a_process_that_serves_none_of_several_orgs_is_refused(settings: pytest.MonkeyPatch) -> None:
    assert refused() == (
        "SFCDC_ORG: is not set, and SFCDC_ORGS lists emea, apac. Name one: `sfcdc --org emea ...`, or the module "
        "sfcdc_assets.orgs"
    )
    assert load_settings(of_all=True).orgs == ("emea", "apac")


def test_a_wrong_value_is_named_as_it_is_set(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("SFCDC_EMEA_SETTLE_SECONDS", "-1")
    assert refused("emea").startswith("SFCDC_EMEA_SETTLE_SECONDS: ")
    settings.setenv("SFCDC_VANISH_ROWS", "-1")
    assert refused("apac").startswith("SFCDC_VANISH_ROWS: ")


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e12"])
def test_a_pace_that_nobody_can_wait_for_is_refused(settings: pytest.MonkeyPatch, value: str) -> None:
    settings.setenv("SFCDC_LAND_SECONDS", value)
    assert refused("emea").startswith("SFCDC_LAND_SECONDS: ")


def test_an_org_that_is_not_listed_is_refused(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("SFCDC_ORG", "latam")
    assert refused() == "SFCDC_ORG: 'latam' is not one of SFCDC_ORGS (emea, apac). Correct it, or SFCDC_ORGS"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("eu-west", "'eu-west' is not a name of letters, digits and _. Name each org as emea"),
        ("spark", "'spark' is how other settings begin (SFCDC_SPARK_MASTER). Choose another name for the org"),
    ],
)
def test_a_name_that_could_be_taken_for_a_setting_is_refused(
    settings: pytest.MonkeyPatch, name: str, said: str
) -> None:
    settings.setenv("SFCDC_ORGS", name)
    assert refused() == f"SFCDC_ORGS: {said}"


@pytest.mark.parametrize("orgs", ["emea,emea_live", "emea_live,apac,emea"])
def test_names_by_which_one_variable_would_be_a_setting_of_two_orgs_are_refused(
    settings: pytest.MonkeyPatch, orgs: str
) -> None:
    settings.setenv("SFCDC_ORGS", orgs)
    problem = "SFCDC_EMEA_LIVE_VIEWS_FILE would be a setting of 'emea' and of 'emea_live'"
    assert refused() == f"SFCDC_ORGS: {problem}. Choose another name for one of the orgs"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/emea", "/data/emea/"),
        ("/data/emea", "file:///data/emea"),
        ("/data/emea", "/data/apac/../emea"),
        ("warehouse", "./warehouse"),
        ("s3://bucket/emea", "s3://bucket/emea/"),
        ("s3://bucket/emea", "S3A://bucket/emea"),
        ("gs://bucket/emea", "gcs://bucket/emea"),
    ],
)
def test_two_orgs_have_no_warehouse_in_common_however_it_is_written(
    settings: pytest.MonkeyPatch, one: str, other: str
) -> None:
    settings.setenv("SFCDC_EMEA_WAREHOUSE", one)
    settings.setenv("SFCDC_APAC_WAREHOUSE", other)
    assert refused("emea").startswith("SFCDC_EMEA_WAREHOUSE: is the warehouse of SFCDC_APAC_WAREHOUSE too.")
    assert refused("apac").startswith("SFCDC_APAC_WAREHOUSE: is the warehouse of SFCDC_EMEA_WAREHOUSE too.")


def test_each_org_needs_a_warehouse_of_its_own(settings: pytest.MonkeyPatch) -> None:
    settings.delenv("SFCDC_APAC_WAREHOUSE")
    settings.setenv("SFCDC_WAREHOUSE", "/data/all")
    assert refused("apac").startswith("SFCDC_APAC_WAREHOUSE: is not set")


def test_entities_are_named_in_any_case(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("SFCDC_ORG", "emea")
    settings.setenv("SFCDC_EMEA_ENTITIES", "account, INVOICE__C")
    wanted = load_settings().entities
    assert "Account" in wanted
    assert "Invoice__c" in wanted
    assert "Contact" not in wanted


def test_a_secret_is_one_whichever_org_has_it() -> None:
    secrets = ("SFCDC_CLIENT_SECRET", "SFCDC_EMEA_CLIENT_SECRET", "sfcdc_apac_hash_key")
    assert all(is_secret(name, ("emea", "apac")) for name in secrets)
    assert not is_secret("SFCDC_EMEA_WAREHOUSE", ("emea", "apac"))
