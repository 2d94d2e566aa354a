"""What the guide for a real org has a reader type works with the emulated one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import Credentials, OrgSettings
from sfcdc_assets.emulator.serving.jwt_key import public_key_in
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.documentation import ROOT, code_blocks


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_key_that_the_page_makes_signs_a_login_that_the_org_accepts(tmp_path: Path) -> None:
    (block,) = [each for each in code_blocks(ROOT / "docs" / "real-org.md") if "openssl" in each.text]
    subprocess.run(["bash", "-euc", block.text], cwd=tmp_path, check=True, capture_output=True)
    credentials = replace(Credentials(), public_key=public_key_in(tmp_path / "jwt.crt"))
    org = EmulatedOrg(seed=1, settings=OrgSettings(credentials=credentials))
    with EmulatorServer(org, directory=tmp_path) as server:
        settings = Settings(
            _env_file=None,
            instance_url=server.rest_url,
            login_url=server.rest_url,
            ca_file=server.ca_file,
            client_id=credentials.client_id,
            username=credentials.username,
            private_key_file=tmp_path / "jwt.key",
        )
        with OrgSession(settings) as session:
            assert session.organization_id == org.organization_id
    org.close()
