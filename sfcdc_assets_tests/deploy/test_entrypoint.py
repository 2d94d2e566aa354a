"""What starts each service of the deployment's image."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sfcdc_assets_tests.deploy.deployment import DEPLOY

SHOWN = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"


def started(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The entry point with no environment but this."""
    return subprocess.run(
        [sys.executable, str(DEPLOY / "entrypoint.py"), *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_secrets_of_files_are_the_environment_of_the_command_and_all_else_stays(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@ss w/ord\n")
    given = {"DAGSTER_POSTGRES_PASSWORD_FILE": str(tmp_path / "password"), "SFCDC_SPARK_CONF_spark.a.bC": "1"}
    done = started(sys.executable, "-c", SHOWN, "a word", SFCDC_CLIENT_SECRET_FILE="/run/org/secret", **given)
    assert done.returncode == 0, done.stderr
    environment, arguments = json.loads(done.stdout)
    assert environment["DAGSTER_POSTGRES_PASSWORD"] == "p@ss w/ord"
    assert "DAGSTER_POSTGRES_PASSWORD_FILE" not in environment
    assert environment["SFCDC_SPARK_CONF_spark.a.bC"] == "1"
    assert environment["SFCDC_CLIENT_SECRET_FILE"] == "/run/org/secret"
    assert arguments == ["a word"]


def test_a_secret_that_is_not_mounted_and_a_command_that_is_not_there_end_it_with_one_line(tmp_path: Path) -> None:
    missing = started("true", _SPARK_AUTH_SECRET_FILE=str(tmp_path / "none"))
    assert missing.returncode == 1
    assert missing.stderr.splitlines() == [
        f"_SPARK_AUTH_SECRET_FILE: {tmp_path / 'none'} cannot be read (No such file or directory). "
        "Mount the secret where the user may."
    ]
    assert started("no-such-program").stderr.splitlines() == [
        "no-such-program cannot be started: No such file or directory."
    ]
    assert started().returncode == 1
