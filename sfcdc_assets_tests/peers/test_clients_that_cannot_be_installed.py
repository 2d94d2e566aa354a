"""Where a registry is out of reach, tests of foreign clients are skipped, and the reason says what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sfcdc_assets_tests.peers.npm_packages import npm_packages
from sfcdc_assets_tests.peers.pip_client import pip_client

NOWHERE = "http://127.0.0.1:9/"  # the port of `discard`, which nothing listens to


def skipped(work: Callable[[], object]) -> str:
    with pytest.raises(pytest.skip.Exception) as skip:
        work()
    return str(skip.value)


@pytest.fixture(autouse=True)
def no_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": NOWHERE,
        "PIP_RETRIES": "0",
        "npm_config_registry": NOWHERE,
        "npm_config_cache": str(tmp_path / "npm"),
        "npm_config_fetch_retries": "0",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


def test_a_client_from_pypi_is_skipped_with_its_name_and_pips_words() -> None:
    reason = skipped(lambda: pip_client("tap-salesforce==2.8.1"))
    assert reason.startswith("tap-salesforce==2.8.1 cannot be installed: ")
    assert "No matching distribution found" in reason


def test_a_client_from_npm_is_skipped_with_npms_words(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    reason = skipped(lambda: npm_packages(Path(__file__).parent, tmp_path / "scripts"))
    assert reason.startswith("npm-peers cannot be installed: ")
    assert "ECONNREFUSED" in reason


def test_a_machine_without_node_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = skipped(lambda: npm_packages(Path(__file__).parent, tmp_path / "scripts"))
    assert reason == "Node.js and npm are not installed"
