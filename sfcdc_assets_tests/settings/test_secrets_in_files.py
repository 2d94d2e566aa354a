"""A file beside each secret: `SFCDC_<NAME>_FILE`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from sfcdc_assets.cli.dev import _environment
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.grants import ClientCredentials
from sfcdc_assets.salesforce.login_choice import chosen_grant
from sfcdc_assets.settings.settings import SECRETS, Settings, is_secret, is_secret_file, load_settings
from sfcdc_assets_tests.environment import without_settings

SECRET = "p@ss w/ord = 'x'"


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One with a secret, and an environment without settings."""
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    return tmp_path / "secret"


def refused() -> str:
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert SECRET not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", sorted(SECRETS - {"SFCDC_NOTICE_WEBHOOK"}))
def test_every_secret_may_be_in_a_file(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{name}_FILE", str(file))
    found = getattr(load_settings(), name.removeprefix("SFCDC_").lower())
    assert isinstance(found, SecretStr)
    assert found.get_secret_value() == SECRET
    assert SECRET not in repr(load_settings())


def test_a_login_may_be_in_a_file_and_one_that_is_replaced_counts_at_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CLIENT_ID", "app")
    (file.parent / ".env").write_text("SFCDC_CLIENT_SECRET_FILE=secret\n")
    grant = chosen_grant(load_settings(), lambda: 0.0)
    assert isinstance(grant, ClientCredentials)
    file.write_text("another")
    found = load_settings().client_secret
    assert found is not None
    assert found.get_secret_value() == "another"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"\n", "is empty"),
        (b"\xff\xfe", "is no text (UTF-8)"),
        (b"x" * 70_000, "is larger than 64 KiB"),
    ],
)
def test_a_file_that_holds_no_secret_is_named_with_the_remedy(
    content: bytes | None, said: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("SFCDC_PASSWORD_FILE", str(file))
    assert refused() == (
        f"SFCDC_PASSWORD_FILE: the file {file} {said}. Name a file that holds the secret alone, and that the user who "
        "runs this may read"
    )


def test_a_secret_that_is_given_twice_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CLIENT_SECRET", SECRET)
    monkeypatch.setenv("SFCDC_CLIENT_SECRET_FILE", str(file))
    assert refused() == "SFCDC_CLIENT_SECRET_FILE: is set, and so is SFCDC_CLIENT_SECRET. Keep one of the two"


def test_a_value_of_a_file_that_is_wrong_is_named_by_the_file_and_not_shown(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_NOTICE_WEBHOOK_FILE", str(file))
    assert refused().startswith("SFCDC_NOTICE_WEBHOOK_FILE: is no web address")


@pytest.mark.parametrize("name", ["SFCDC_USERNAME_FILE", "SFCDC_WAREHOUSE_FILE", "SFCDC_CLIENT_SECRETS_FILE"])
def test_what_is_no_secret_has_no_file(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, str(file))
    assert refused().startswith(f"{name}: is not a setting")


@pytest.mark.parametrize("name", ["SPARK__AUTHENTICATE__SECRET_FILE", "spark.authenticate.secret_FILE"])
def test_an_option_of_spark_that_is_a_secret_may_be_in_a_file(
    name: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SFCDC_SPARK_CONF_{name}", str(file))
    assert load_settings().spark_conf == {"spark.authenticate.secret": SECRET}


def test_an_orgs_process_reads_its_own_files_and_no_other(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EMEA", "APAC"):
        monkeypatch.setenv(f"SFCDC_{name}_WAREHOUSE", f"/data/{name}")
    monkeypatch.setenv("SFCDC_ORGS", "emea,apac")
    monkeypatch.setenv("SFCDC_CLIENT_SECRET_FILE", "of no org")
    monkeypatch.setenv("SFCDC_EMEA_CLIENT_SECRET_FILE", str(file))
    monkeypatch.setenv("SFCDC_APAC_CLIENT_SECRET_FILE", str(file.with_name("not there")))
    monkeypatch.setenv("SFCDC_HASH_KEY_FILE", str(file))
    served = load_settings("emea")
    for found in (served.client_secret, served.hash_key):
        assert found is not None
        assert found.get_secret_value() == SECRET
    with pytest.raises(SettingsError, match=r"SFCDC_APAC_CLIENT_SECRET_FILE: the file .*not there cannot be read"):
        load_settings("apac")


def test_the_name_of_the_file_is_no_secret_and_dagster_finds_it_from_its_own_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("SFCDC_EMEA_CLIENT_SECRET_FILE", "SFCDC_SPARK_CONF_SPARK__AUTHENTICATE__SECRET_FILE")
    assert not any(is_secret(name, ["emea"]) for name in names)
    assert all(is_secret_file(name, ["emea"]) for name in names)
    assert not is_secret_file("SFCDC_PRIVATE_KEY_FILE", ())
    monkeypatch.setenv("SFCDC_CLIENT_SECRET_FILE", file.name)
    assert _environment(Settings())["SFCDC_CLIENT_SECRET_FILE"] == os.fspath(file)
