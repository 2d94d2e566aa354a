"""The machine: Java, Dagster's home, the port of its UI, and where settings come from and who else can read them."""

from __future__ import annotations

import json
import os
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.runtime.errors import PortInUseError
from sfcdc_assets.settings.secrets_in_files import SUFFIX
from sfcdc_assets.settings.setting_values import PREFIX, environment
from sfcdc_assets.settings.settings import Settings, is_secret, is_secret_file
from sfcdc_assets.spark.cluster import spark_address
from sfcdc_assets.spark.java import JavaMissing, check_java

JAVA, SPARK, HOME, PORT = "Java", "Spark Connect", "Dagster's home", "port of the Dagster UI"
SPARK_CONNECT_PORT = 15002
_ANSWER_SECONDS = 2.0


def java(settings: Settings | None) -> Finding:
    """Return the Java that Spark would start; with Spark Connect none is needed here."""
    if settings is not None and settings.spark_remote:
        return ok(JAVA, f"not needed: Spark runs at {spark_address(settings)}")
    try:
        return ok(JAVA, f"version {check_java()}")
    except JavaMissing as error:
        return of_error(JAVA, error)


def spark_server(url: str) -> Finding:
    """Return whether something listens at the address of a Spark Connect server."""
    at = urlsplit(url)
    try:
        with socket.create_connection((at.hostname or "", at.port or SPARK_CONNECT_PORT), _ANSWER_SECONDS):
            return ok(SPARK, f"{url} takes connections")
    except (OSError, ValueError) as error:
        fix = "Start the Spark Connect server, or correct SFCDC_SPARK_REMOTE (sc://host:15002)."
        return failed(SPARK, f"{url} takes no connection ({error}).", fix)


def dagster_home(value: str | None) -> Finding:
    """DAGSTER_HOME as Dagster wants it: an absolute path of a folder that can be written."""
    if not value:
        return ok(HOME, "DAGSTER_HOME is not set: `sfcdc sync` keeps no record of its runs, `sfcdc dev` has its own")
    home = Path(value).expanduser()
    if not home.is_absolute():
        return failed(HOME, f"DAGSTER_HOME={value} is a relative path.", f"Set it to {home.absolute()}.")
    if not home.is_dir():
        return failed(HOME, f"DAGSTER_HOME={value} is not a folder.", f"Create it: mkdir -p {value}")
    if not os.access(home, os.W_OK | os.X_OK):
        return failed(HOME, f"DAGSTER_HOME={value} cannot be written.", "Give this user the right to write there.")
    if not (home / "dagster.yaml").exists():
        return ok(HOME, f"{value}, without a dagster.yaml: Dagster's defaults hold")
    return ok(HOME, value)


def ui_port(port: int, listen: Callable[[int], int]) -> Finding:
    """Return whether `sfcdc dev` could listen, or does. `listen` raises `PortInUseError`."""
    try:
        listen(port)
        return ok(PORT, f"{port} is free")
    except PortInUseError:
        if _is_dagster(port):
            return ok(PORT, f"a Dagster UI is on {port}")
        return failed(PORT, f"Another program listens on {port}.", f"Run `sfcdc dev --port {port + 1}`, or stop it.")


def _is_dagster(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=_ANSWER_SECONDS) as answer:
            return "dagster_version" in json.loads(answer.read(10_000))
    except (urllib.error.URLError, OSError, ValueError, TypeError):
        return False


SETTINGS, FILES = "settings", "files with secrets"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def sources(environment: Mapping[str, str], dotenv: Mapping[str, str], file: Path) -> Finding:
    """Return the names that are set, by where they are; the environment wins."""
    in_environment = sorted({name.upper() for name, value in environment.items() if _is_set(name, value)})
    in_file = sorted({name.upper() for name, value in dotenv.items() if _is_set(name, value)})
    parts = []
    if in_environment:
        parts.append(f"from the environment {', '.join(in_environment)}")
    if in_file:
        parts.append(f"from {file.absolute()} {', '.join(in_file)}")
    both = sorted(set(in_environment) & set(in_file))
    if both:
        return warning(
            SETTINGS,
            "; ".join(parts),
            f"{', '.join(both)} {'is' if len(both) == 1 else 'are'} set in both, and the environment wins: keep one.",
        )
    return ok(SETTINGS, "; ".join(parts) or "none is set: every default holds")


def secret_files(settings: Settings, dotenv: Mapping[str, str], file: Path) -> Iterator[Finding]:
    """`.env` if it has a secret, the private key, and the files that settings name: readable by nobody else. A group
    may be how a container is given the last ones."""
    in_file = sorted(name.upper() for name, value in dotenv.items() if is_secret(name, settings.orgs) and value)
    if in_file:
        yield _readable_by(file, in_file)
    if settings.private_key_file is not None:
        yield _readable_by(settings.private_key_file, ["the private key"])
    for name, path in sorted(environment().items()):
        if is_secret_file(name, () if settings.org is None else (settings.org,)):
            yield _readable_by(Path(path).expanduser(), [name[: -len(SUFFIX)]], stat.S_IRWXO)


def _readable_by(file: Path, secrets: Collection[str], others: int = _OTHERS) -> Finding:
    mode = stat.S_IMODE(file.stat().st_mode)
    has = f"{file} has {', '.join(secrets)} and mode {mode:o}"
    if mode & others:
        return warning(FILES, f"{has}: other users of this machine may read it.", f"Run: chmod 600 {file}")
    return ok(FILES, has)


def _is_set(name: str, value: str) -> bool:
    return name.upper().startswith(PREFIX) and bool(value)
