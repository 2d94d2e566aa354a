"""What the command prints: help, JSON for programs, and never a secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

from sfcdc_assets.cli.main import app
from sfcdc_assets_tests.cli.command import console_script, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM

pytestmark = pytest.mark.slow

COMMANDS = get_command(app).commands


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_on_each_option(command: str) -> None:
    result = sfcdc(command, "--help")
    assert result.exit_code == 0
    for parameter in COMMANDS[command].params:
        assert getattr(parameter, "help", None) or parameter.name == "help", parameter.name


def test_the_commands_of_the_contract_are_there() -> None:
    assert {"emulator", "sync", "status", "verify"} <= set(COMMANDS)
    assert sfcdc("--help").exit_code == 0


def test_status_of_nothing_creates_nothing(make_pipeline: Callable[..., EmulatedPipeline]) -> None:
    pipeline = make_pipeline("Account", records=1)
    result = sfcdc("status", "--json")
    assert result.exit_code == 0
    description = json.loads(result.stdout)
    assert description["entities"] == []
    assert description["channels"][0]["position"] == 0
    assert "No entity was copied yet" in sfcdc("status").stdout
    assert not pipeline.warehouse.exists()
    assert pipeline.server.meter.total == 0


def test_questions_in_sql_end_without_a_word_of_the_library(tmp_path: Path) -> None:
    result = console_script("sql", "SELECT 1", SFCDC_WAREHOUSE=str(tmp_path / "warehouse"))
    assert result.returncode == 1
    assert result.stderr.startswith("sfcdc: The warehouse ")
    assert len(result.stderr.splitlines()) == 1


def test_a_whole_sync_shows_no_secret_anywhere(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The console script, its Spark and its Dagster home: neither what they print nor a file they write has one."""
    pipeline = make_pipeline("Account", records=20)
    tokens: list[str] = []
    issue = pipeline.server.sessions.issue

    def issued(user_id: str, lifetime: int | None = None) -> str:
        tokens.append(issue(user_id, lifetime))
        return tokens[-1]

    monkeypatch.setattr(pipeline.server.sessions, "issue", issued)
    with pipeline.org.transaction() as one:
        one.create("Account", {"Name": "first"})
    home = tmp_path / "dagster_home"
    home.mkdir()
    env = {
        "DAGSTER_HOME": str(home),
        "SFCDC_SETTLE_SECONDS": "1",
        "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": QUICK_JVM,
    }
    synced = console_script("sync", "--until-caught-up", "--json", **env)
    assert synced.returncode == 0, synced.stderr
    assert json.loads(synced.stdout)["ticks"][0]["jobs"] == ["snapshot"]
    summary = json.loads(synced.stdout)["summary"]
    assert (summary["events_landed"], summary["snapshots"], summary["suspect_records"]) == (1, 1, 0)
    assert summary["snapshot_rows"] == 21
    assert summary["api_requests"] > 0
    assert "1 event landed on /data/ChangeEvents by this sync" in synced.stderr
    assert "snapshots:       1 (21 rows)" in synced.stderr
    assert not [line for line in synced.stderr.splitlines() if "WARN" in line.upper() or "log level" in line]
    pipeline.assert_equal_to_the_org()
    outputs = [synced.stdout, synced.stderr]
    for arguments in (("status", "--json"), ("verify", "--json")):
        description = sfcdc(*arguments)
        assert description.exit_code == 0, description.stderr
        outputs += [description.stdout, description.stderr]
        assert [each["entity"] for each in json.loads(description.stdout)["entities"]] == ["Account"]

    assert tokens
    secrets = [os.environ["SFCDC_CLIENT_SECRET"], *tokens]
    for secret in secrets:
        assert all(secret not in output for output in outputs)
    written = [path for folder in (pipeline.warehouse, home) for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 10
    for path in written:
        content = path.read_bytes()
        assert not any(secret.encode() in content for secret in secrets), path
