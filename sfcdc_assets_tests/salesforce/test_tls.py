from __future__ import annotations

import os
import shutil
from pathlib import Path

import certifi
import pytest

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.tls import trusted_roots


def test_the_roots_are_read_once_for_all_connections_of_a_process(tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    shutil.copy(certifi.where(), ca_file)
    assert trusted_roots(ca_file) is trusted_roots(ca_file)
    assert trusted_roots(None) is not trusted_roots(ca_file)


def test_a_file_of_roots_that_was_renewed_is_read_again(tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    shutil.copy(certifi.where(), ca_file)
    before = trusted_roots(ca_file)
    renewed = tmp_path / "renewed.pem"
    shutil.copy(certifi.where(), renewed)
    os.replace(renewed, ca_file)
    assert trusted_roots(ca_file) is not before


def test_a_file_that_is_mended_is_not_refused_for_what_it_was(tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    with pytest.raises(SettingsError, match="SFCDC_CA_FILE"):
        trusted_roots(ca_file)
    shutil.copy(certifi.where(), ca_file)
    assert trusted_roots(ca_file).cert_store_stats()["x509_ca"] > 0
