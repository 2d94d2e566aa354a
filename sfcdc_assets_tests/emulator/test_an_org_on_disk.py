"""What an org in a folder keeps, and that one process has it at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfcdc_assets.emulator.errors import OrgInUseError
from sfcdc_assets.emulator.org import EmulatedOrg

_HOLD = """
import sys
from pathlib import Path
from sfcdc_assets.emulator.org import EmulatedOrg
org = EmulatedOrg(Path(sys.argv[1]))
print(1, flush=True)
sys.stdin.read()
"""


def test_the_selected_entities_are_kept(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path)
    org.selected_entities = ["Account", "Contact"]
    with org.transaction() as work:
        work.create("Account", {"Name": "a"})
    org.selected_entities.remove("Contact")
    org.close()
    again = EmulatedOrg(tmp_path)
    assert again.selected_entities == ["Account"]
    again.selected_entities = []
    again.close()
    third = EmulatedOrg(tmp_path)
    assert third.selected_entities == []
    third.close()


def test_a_changed_organization_id_is_kept(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path)
    changed = org.change_organization_id()
    org.close()
    again = EmulatedOrg(tmp_path)
    assert again.organization_id == changed
    again.close()


def test_a_folder_in_use_is_refused_and_says_by_whom(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path)
    with pytest.raises(OrgInUseError, match=f"process {os.getpid()}"):
        EmulatedOrg(tmp_path)
    org.close()
    EmulatedOrg(tmp_path).close()


def test_the_folder_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(OrgInUseError, match=f"process {process.pid}"):
            EmulatedOrg(tmp_path)
        process.kill()
        process.wait(20)
        EmulatedOrg(tmp_path).close()
