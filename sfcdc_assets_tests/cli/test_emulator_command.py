"""`sfcdc emulator`: the console script serves, its settings are read by a shell and by dotenv, and SIGTERM ends it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import jwt
import requests
from dotenv import dotenv_values

from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.cli.command import SCRIPT, console_script
from sfcdc_assets_tests.eventually import BOUND_SECONDS

PASSWORD_LOGIN = ("SFCDC_USERNAME", "SFCDC_PASSWORD", "SFCDC_SECURITY_TOKEN")
JWT_LOGIN = ("SFCDC_USERNAME", "SFCDC_PRIVATE_KEY_FILE")
LOGINS = {*PASSWORD_LOGIN, *JWT_LOGIN, "SFCDC_CLIENT_ID", "SFCDC_CLIENT_SECRET"}


def test_the_emulator_serves_writes_its_settings_and_stops_on_sigterm(tmp_path: Path) -> None:
    folder = tmp_path / "my org"
    command = [str(SCRIPT), "emulator", "--dir", str(folder), "--records", "3", "--seed", "4", "--traffic", "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            settings = folder / "org.env"
            deadline = time.monotonic() + BOUND_SECONDS
            answered = None
            while answered is None and time.monotonic() < deadline and process.poll() is None:
                answered = versions_of(settings)
            assert answered == 200, process.poll()
            assert by_a_shell(settings) == {name: str(value) for name, value in dotenv_values(settings).items()}
            assert logged_in_with_the_key_of_the_settings(settings)
            for login in ({*PASSWORD_LOGIN}, {*JWT_LOGIN, "SFCDC_CLIENT_ID"}):
                assert logged_in_with_what_was_a_comment(settings, folder, login)
        finally:
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0
    assert output.strip().endswith("Stopped.")
    secret = dotenv_values(settings)["SFCDC_CLIENT_SECRET"]
    assert secret
    assert secret not in output


def logged_in_with_the_key_of_the_settings(settings: Path) -> bool:
    """Whether the private key that org.env names signs an assertion that the org accepts."""
    given = {name: str(value) for name, value in dotenv_values(settings).items()}
    claims = {
        "iss": given["SALESFORCE_CLIENT_ID"],
        "sub": given["SALESFORCE_USERNAME"],
        "aud": "https://login.salesforce.com",
        "exp": int(time.time()) + 180,
    }
    assertion = jwt.encode(claims, Path(given["SALESFORCE_JWT_KEY_FILE"]).read_text(), algorithm="RS256")
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
    url = f"{given['SALESFORCE_INSTANCE_URL']}/services/oauth2/token"
    return requests.post(url, data=form, verify=given["SFCDC_CA_FILE"], timeout=BOUND_SECONDS).status_code == 200


def logged_in_with_what_was_a_comment(settings: Path, folder: Path, login: set[str]) -> bool:
    """Whether this project's own client gets a token with these settings alone, their # taken away."""
    text = settings.read_text().replace("# SFCDC_", "SFCDC_")
    lines = [
        line for line in text.splitlines() if line.partition("=")[0] in login or not line.startswith(tuple(LOGINS))
    ]
    (folder / "other.env").write_text("\n".join(lines))
    given = {name: value for name, value in dotenv_values(folder / "other.env").items() if name.startswith("SFCDC_")}
    assert login < given.keys()
    settings_of = {name.removeprefix("SFCDC_").lower(): value for name, value in given.items()}
    with OrgSession(Settings(**settings_of)) as session:  # type: ignore[arg-type]
        return bool(session.token())


def versions_of(settings: Path) -> int | None:
    """The status of the org's list of versions; None while it does not answer."""
    description = dotenv_values(settings)
    if "SFCDC_CA_FILE" not in description:
        return None
    try:
        return requests.get(
            f"{description['SFCDC_INSTANCE_URL']}/services/data",
            verify=description["SFCDC_CA_FILE"],
            timeout=BOUND_SECONDS,
        ).status_code
    except requests.ConnectionError:
        return None


def by_a_shell(settings: Path) -> dict[str, str]:
    """The variables of the file after a shell has read the file."""
    script = f"set -a; . {shlex.quote(str(settings))}; set +a; env -0"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "SALESFORCE_"))}
    description = subprocess.run(
        ["sh", "-c", script], capture_output=True, check=True, env=environment, timeout=BOUND_SECONDS
    ).stdout
    pairs = [entry.decode().partition("=") for entry in description.split(b"\0") if entry]
    return {name: value for name, _, value in pairs if name.startswith(("SFCDC_", "SALESFORCE_"))}


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = console_script("emulator", "--dir", str(tmp_path / "file" / "org"))
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("sfcdc: ")
    assert "--dir" in line


def test_a_file_that_is_no_public_key_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")
    result = console_script("emulator", "--dir", str(tmp_path / "org"), "--public-key", str(tmp_path / "key.pem"))
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert "holds no public key" in line
