"""Bad input: one plain sentence that names the setting and the fix, exit code 1, and nothing half done."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.wanted_entities import check_wanted_entities
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import console_script, refusal, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline

pytestmark = pytest.mark.slow

COMMANDS_THAT_ASK_THE_ORG = [("sync",), ("verify",)]


def tables_with_rows(warehouse: Path) -> list[Path]:
    """Files of rows, but for the one that says whose the warehouse is."""
    return sorted(path for path in warehouse.rglob("*.parquet") if path.parent.name != "organization")


@pytest.fixture
def org(make_pipeline: Callable[..., EmulatedPipeline]) -> EmulatedPipeline:
    """A small org with an event waiting, so that something could be half done."""
    pipeline = make_pipeline("Account", records=2)
    with pipeline.org.transaction() as one:
        one.create("Account", {"Name": "waiting"})
    return pipeline


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where tables would be, for what is refused before the org is asked anything."""
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    return tmp_path / "warehouse"


@pytest.mark.parametrize(
    ("setting", "value", "description"),
    [
        ("SFCDC_CHANNELS", "ChangeEvents", "'ChangeEvents' is not a channel name; write it as /data/ChangeEvents"),
        ("SFCDC_CHANNELS", "/data/ChangeEvents,/events/Order__e", "'/events/Order__e' is not a channel name"),
        ("SFCDC_CHANNELS", "/topic/Accounts?Industry", "has a malformed filter; write it as /topic/Accounts?Industry="),
        ("SFCDC_CHANNELS", " , ", "name at least one channel"),
        ("SFCDC_POLL", "Account-s", "SFCDC_POLL"),
        ("SFCDC_PUBSUB_ENDPOINT", "api.pubsub.salesforce.com", "is not host:port"),
        ("SFCDC_PUBSUB_ENDPOINT", "https://api.pubsub.salesforce.com:7443", "is not host:port"),
        ("SFCDC_INSTANCE_URL", "http://example.my.salesforce.com", "does not start with https://"),
        ("SFCDC_PUBSUB_ENDPOINT", "api.pubsub.salesforce.com:74430", "has no port of 1 to 65535"),
        ("SFCDC_INSTANCE_URL", "https://a.lightning.force.com/lightning/page/home", "is not the address of a host"),
        ("SFCDC_WAREHOUSE", "ftp://host/folder", "is neither a folder nor a place in an object store"),
        ("SFCDC_WAREHOUSE", "s3://", "is neither a folder nor a place in an object store"),
        ("SFCDC_WAREHOUSE", "s3:/bucket/prefix", "is neither a folder nor a place in an object store"),
        ("SFCDC_ORG_ID", "my-org", "is not an organization's id, 15 or 18 characters that begin with 00D; copy it"),
        ("SFCDC_ORG_ID", "001000000000000AAA", "is not an organization's id"),
        ("SFCDC_SPARK_MASTER", "host:7077", "is no master of Spark; write it as local[*]"),
        ("SFCDC_LOGIN_URL", "login.salesforce.com", "does not start with https://"),
        ("SFCDC_CA_FILE", "/no/such/ca.pem", "/no/such/ca.pem cannot be read"),
        ("SFCDC_PRIVATE_KEY_FILE", "/no/such/key.pem", "/no/such/key.pem cannot be read"),
    ],
)
@pytest.mark.parametrize("command", ["sync", "verify", "status"])
def test_a_wrong_setting_is_named(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, command: str, setting: str, value: str, description: str
) -> None:
    monkeypatch.setenv(setting, value)
    said = refusal(sfcdc(command))
    assert said.startswith(f"sfcdc: {setting}: ")
    assert description in said
    assert "Correct it in the environment or in .env" in said
    assert not warehouse.exists()


def test_neither_a_channel_nor_an_object_to_poll_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", "none")
    assert refusal(sfcdc("status")).startswith("sfcdc: SFCDC_POLL: names no object, and there is no channel")


def test_a_wrong_setting_in_a_dotenv_file_is_named_too(warehouse: Path) -> None:
    Path(".env").write_text("SFCDC_ENTITIES=Account\nSFCDC_PRIVATE_KEY_FILE=/no/such/key.pem\n")
    assert refusal(sfcdc("status")).startswith("sfcdc: SFCDC_PRIVATE_KEY_FILE: ")


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("SFCDC_WAREHOUS", "Did you mean SFCDC_WAREHOUSE?"),
        ("SFCDC_ENTITES", "Did you mean SFCDC_ENTITIES?"),
        ("sfcdc_chanels", "Did you mean SFCDC_CHANNELS?"),
        ("SFCDC_SPARK_CONF", "Did you mean"),
        ("SFCDC_XYZ", "The README lists them all."),
    ],
)
@pytest.mark.parametrize("where", ["environment", ".env"])
@pytest.mark.parametrize("command", ["sync", "status"])
def test_a_name_that_is_no_setting_is_reported_with_the_nearest_one(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, command: str, where: str, name: str, description: str
) -> None:
    if where == ".env":
        Path(".env").write_text(f"{name}=\n")
    else:
        monkeypatch.setenv(name, "secret-w0rd")
    said = refusal(sfcdc(command))
    assert said.startswith(f"sfcdc: {name}: is not a setting. ")
    assert description in said
    assert "secret-w0rd" not in said
    assert not warehouse.exists()


def test_options_of_spark_may_have_any_name_also_in_a_dotenv_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("SFCDC_SPARK_CONF_SPARK__DRIVER__MEMORY=1g\nSFCDC_SPARK_CONF_SPARK__EXECUTOR__CORES=2\n")
    monkeypatch.setenv("SFCDC_SPARK_CONF_SPARK__DRIVER__MEMORY", "3g")
    conf = load_settings().spark_conf
    assert (conf["spark.driver.memory"], conf["spark.executor.cores"]) == ("3g", "2")


def test_the_id_of_another_org_is_named(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_ORG_ID", "00D000000000000AAA")
    assert "SFCDC_ORG_ID" in refusal(sfcdc("sync"))
    assert not tables_with_rows(org.warehouse)


@pytest.mark.parametrize("command", COMMANDS_THAT_ASK_THE_ORG)
def test_without_any_login_the_recommended_one_comes_first_and_the_emulated_org_is_named(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv("SFCDC_CLIENT_ID")
    monkeypatch.delenv("SFCDC_CLIENT_SECRET")
    said = refusal(sfcdc(*command))
    assert "no login to the org is set" in said
    assert said.index("SFCDC_CLIENT_ID + SFCDC_CLIENT_SECRET") < said.index("SFCDC_ACCESS_TOKEN")
    assert "docs/real-org.md" in said
    assert "sfcdc emulator" in said
    assert not tables_with_rows(org.warehouse)


def test_half_a_login_names_the_missing_half(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFCDC_CLIENT_SECRET")
    assert "SFCDC_CLIENT_SECRET: needed to log in" in refusal(sfcdc("sync"))


@pytest.mark.parametrize("command", COMMANDS_THAT_ASK_THE_ORG)
def test_two_logins_at_once_name_both(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SFCDC_ACCESS_TOKEN", "00Dsecret!token")
    said = refusal(sfcdc(*command))
    assert "SFCDC_ACCESS_TOKEN" in said
    assert "SFCDC_CLIENT_SECRET" in said
    assert "2 ways to log in are set at once" in said
    assert "00Dsecret" not in said
    assert not tables_with_rows(org.warehouse)


@pytest.mark.parametrize("command", COMMANDS_THAT_ASK_THE_ORG)
def test_a_wrong_client_secret_is_reported_without_showing_it(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SFCDC_CLIENT_SECRET", "wr0ng-s3cret")
    said = refusal(sfcdc(*command))
    assert "refused the login by client credentials" in said
    assert "SFCDC_CLIENT_SECRET" in said
    assert "wr0ng-s3cret" not in said
    assert not tables_with_rows(org.warehouse)


def test_a_token_that_is_not_valid_any_more_is_reported(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFCDC_CLIENT_ID")
    monkeypatch.delenv("SFCDC_CLIENT_SECRET")
    monkeypatch.setenv("SFCDC_ACCESS_TOKEN", "00Dexpired!token")
    said = refusal(sfcdc("sync"))
    assert "SFCDC_ACCESS_TOKEN" in said
    assert "00Dexpired" not in said
    assert not tables_with_rows(org.warehouse)


@pytest.mark.parametrize("command", COMMANDS_THAT_ASK_THE_ORG)
def test_an_org_that_cannot_be_reached_names_the_setting(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SFCDC_LOGIN_URL", "https://localhost:1")
    said = refusal(sfcdc(*command))
    assert "https://localhost:1 cannot be reached" in said
    assert "SFCDC_LOGIN_URL" in said
    assert not tables_with_rows(org.warehouse)


def test_an_endpoint_that_cannot_be_reached_names_the_setting(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_PUBSUB_ENDPOINT", "localhost:1")
    said = refusal(sfcdc("sync"))
    assert "SFCDC_PUBSUB_ENDPOINT" in said
    assert not tables_with_rows(org.warehouse)


@pytest.mark.parametrize("command", COMMANDS_THAT_ASK_THE_ORG)
def test_a_certificate_that_is_not_trusted_says_where_to_put_its_root(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv("SFCDC_CA_FILE")
    said = refusal(sfcdc(*command))
    assert "is not trusted" in said
    assert "SFCDC_CA_FILE" in said
    assert not tables_with_rows(org.warehouse)


def test_a_ca_file_without_a_certificate_is_named(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("ca.pem").write_text("no certificate\n")
    monkeypatch.setenv("SFCDC_CA_FILE", "ca.pem")
    assert "SFCDC_CA_FILE" in refusal(sfcdc("sync"))


def test_an_unknown_channel_is_named(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", "/data/AcountChangeEvent")
    said = refusal(sfcdc("sync"))
    assert "The org has no channel /data/AcountChangeEvent" in said
    assert "SFCDC_CHANNELS" in said
    assert not tables_with_rows(org.warehouse)


def test_a_channel_without_permission_is_named(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    org.org.unreadable_objects.add("Account")
    monkeypatch.setenv("SFCDC_CHANNELS", "/data/AccountChangeEvent")
    said = refusal(sfcdc("sync"))
    assert "/data/AccountChangeEvent" in said
    assert "permission" in said
    assert not tables_with_rows(org.warehouse)


def test_an_entity_without_permission_is_named_with_the_fix(org: EmulatedPipeline) -> None:
    org.org.unreadable_objects.add("Account")
    result = sfcdc("sync", "--until-caught-up")
    assert result.exit_code == 1
    said = result.stderr.strip().splitlines()[-1]
    assert "Not all is applied" in said
    assert "The entity Account cannot be read" in said
    assert "SFCDC_ENTITIES" in said
    assert not (org.warehouse / "current_state").exists()


@pytest.mark.parametrize("command", COMMANDS_THAT_ASK_THE_ORG)
@pytest.mark.parametrize(
    ("entities", "wrong", "description"),
    [
        ("Acount", "Acount", "Did you mean Account?"),
        ("Account,contakt", "contakt", "Did you mean Contact?"),
        ("Xyzzy__c", "Xyzzy__c", "Select it for Change Data Capture"),
        ("Account,Opportunity", "Opportunity", "Select it for Change Data Capture"),
    ],
)
def test_an_entity_that_no_channel_carries_is_reported_with_the_nearest_name(
    org: EmulatedPipeline,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    entities: str,
    wrong: str,
    description: str,
) -> None:
    org.org.selected_entities = ["Account", "Contact"]
    monkeypatch.setenv("SFCDC_ENTITIES", entities)
    said = refusal(sfcdc(*command))
    assert said.startswith("sfcdc: SFCDC_ENTITIES: ")
    assert f"carries {wrong}." in said
    assert description in said
    assert not tables_with_rows(org.warehouse)
    assert org.server.meter.total == 0


def test_where_the_org_lists_no_members_its_objects_tell_which_names_are_wrong(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OrgConnection, "members", lambda *_, **__: None)
    monkeypatch.setenv("SFCDC_ENTITIES", "Acount")
    assert "Did you mean Account?" in refusal(sfcdc("verify"))
    monkeypatch.setenv("SFCDC_ENTITIES", "account,Opportunity")
    assert sfcdc("verify").exit_code == 0


def test_an_object_that_is_copied_and_then_taken_off_the_channel_stops_nothing_and_costs_nothing(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_ENTITIES", "Account,Contact")
    (org.warehouse / "snapshot" / "Account").mkdir(parents=True)
    (org.warehouse / "snapshot" / "Contact").mkdir(parents=True)
    settings, warehouse = load_settings(), Warehouse(str(org.warehouse))
    with open_org(warehouse, settings) as connected:
        calls = connected.session.calls
        check_wanted_entities(warehouse, settings, connected)
        assert connected.session.calls == calls


@pytest.mark.parametrize("command", ["sync", "verify"])
def test_a_warehouse_that_cannot_be_written_is_named(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    Path("file").touch()
    monkeypatch.setenv("SFCDC_WAREHOUSE", "file/warehouse")
    said = refusal(sfcdc(command))
    assert "SFCDC_WAREHOUSE" in said
    assert "cannot be written" in said
    assert org.server.meter.total == 0


@pytest.mark.parametrize("command", [("sync",), ("demo",), ("dev",)])
def test_a_missing_java_is_reported_with_the_fix_before_anything_is_done(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    said = refusal(sfcdc(*command))
    assert "no java is on PATH" in said
    assert "apt-get install openjdk-17" in said
    assert not warehouse.exists()
    assert not Path(".sfcdc").exists()


@pytest.mark.parametrize(
    ("script", "description"),
    [
        ("echo 'openjdk version \"11.0.22\" 2024-01-16' >&2", "is version 11"),
        ("echo 'java version \"1.8.0_402\"' >&2", "is version 8"),
        ("echo 'something else' >&2", "is version unknown"),
        ("exit 3", "does not run"),
    ],
)
def test_a_java_that_spark_cannot_use_is_reported_with_its_version(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, description: str
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    for name, value in (("JAVA_HOME", str(tmp_path / "jdk")), ("PATH", str(java.parent))):
        with monkeypatch.context() as patch:
            patch.delenv("JAVA_HOME", raising=False)
            patch.setenv(name, value)
            said = refusal(sfcdc("sync"))
        assert description in said
        assert "Spark needs Java 17 or newer" in said
    assert not warehouse.exists()


def test_the_console_script_says_the_same(org: EmulatedPipeline) -> None:
    result = console_script("sync", SFCDC_CLIENT_SECRET="wr0ng-s3cret")
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("sfcdc: ")
    assert "SFCDC_CLIENT_SECRET" in line
    assert "wr0ng-s3cret" not in line


@pytest.mark.parametrize("arguments", [("snyc",), ("sync", "--until-caught-upp"), ("verify", "--entity")])
def test_a_mistyped_command_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    result = sfcdc(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_the_time_of_a_cut_is_meant_in_the_zone_that_it_names(warehouse: Path) -> None:
    said = sfcdc("cut", "--at", "2026-11-27T08:30+02:00")

    assert said.exit_code == 1
    assert "at or before 2026-11-27T06:30:00+00:00" in said.stderr


@pytest.mark.parametrize("written", ["yesterday", "31.1.2026", ""])
def test_what_is_no_time_is_refused_by_cut_as_by_the_commands_beside_it(warehouse: Path, written: str) -> None:
    said = sfcdc("cut", "--at", written)

    assert said.exit_code == 1
    assert f"sfcdc: --at: {written!r} is not a time. Write it as 2026-11-20" in said.stderr


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory. Name a certificate"),
        (b"no JSON", "is no certificate. Name a file that `sfcdc certify` wrote"),
        (b"[]", "is no certificate. Name a file that `sfcdc certify` wrote"),
    ],
)
def test_a_file_that_is_no_certificate_is_named_once_with_what_to_name(
    warehouse: Path, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "certificate.json"
    if content is not None:
        file.write_bytes(content)
    assert refusal(sfcdc("certify", "--check", str(file))) == f"sfcdc: --check: {file} {problem}"


def test_a_file_of_ids_that_cannot_be_read_is_named_once(warehouse: Path, tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_bytes(b"\xff\xfe\x00")
    said = refusal(sfcdc("forget", "--entity", "Account", "--ids-file", str(file)))
    assert f"--ids-file: {file} cannot be read: it is no text in UTF-8" in said
    said = refusal(sfcdc("forget", "--entity", "Account", "--ids-file", str(tmp_path)))
    assert f"--ids-file: {tmp_path} cannot be read: Is a directory" in said
