"""What an org in a folder keeps, and that one process has it at a time."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sfcdc_assets.cli.demo_parts.emulated_org import open_emulated_org
from sfcdc_assets.cli.terminal.interruption import Interrupted, Interruption
from sfcdc_assets.emulator.errors import OrgInUseError, OrgStoppingError
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.eventually import BOUND_SECONDS

_HOLD = """
import sys
import threading
from pathlib import Path
from sfcdc_assets.emulator.org.org import EmulatedOrg
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
        process.wait(BOUND_SECONDS)
        EmulatedOrg(tmp_path).close()


_FILL = """
import os, sys
from pathlib import Path
from sfcdc_assets.cli.demo_parts.emulated_org import open_emulated_org
from sfcdc_assets.emulator.org import database
from sfcdc_assets.emulator.records.roll_up import RollUps
database._LOADING_CACHE_KIB = 64  # so that most pages are in the file
RollUps.recalculate_all = lambda self: os._exit(9)  # all records are written, and nothing is committed
open_emulated_org(Path(sys.argv[1]), 3, 100)
"""


def test_an_org_that_was_killed_while_it_was_filled_is_filled_by_the_next_start(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", _FILL, str(tmp_path / "org")], check=False).returncode == 9
    assert (tmp_path / "org" / "org.db-journal").stat().st_size > 0
    assert (tmp_path / "org" / "org.db").stat().st_size > 1_000_000
    org = open_emulated_org(tmp_path / "org", 3, 100)
    whole = open_emulated_org(tmp_path / "other", 3, 100)
    try:
        for entity in org.definitions:
            ids = [record["Id"] for record in org.records(entity)]
            assert ids == [record["Id"] for record in whole.records(entity)]
        assert org.database.rows("PRAGMA integrity_check") == [("ok",)]
        assert org.database.rows("PRAGMA journal_mode") == [("wal",)]
    finally:
        org.close()
        whole.close()


def test_an_interruption_ends_the_filling_and_frees_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sfcdc_assets.emulator.records.roll_up.RollUps.recalculate_all", lambda _: os.kill(os.getpid(), signal.SIGINT)
    )
    with Interruption() as interruption, pytest.raises(Interrupted), interruption.raised():
        open_emulated_org(tmp_path, 3, 50)
    monkeypatch.undo()
    org = open_emulated_org(tmp_path, 3, 50)
    assert org.count("Contact") == 50
    org.close()


def test_an_interruption_before_the_work_ends_it_and_one_after_it_is_waited_for() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted), interruption.raised():
            raise AssertionError("the work is not begun")
        with interruption.raised():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.wait(BOUND_SECONDS)


def test_an_org_whose_file_another_program_reads_is_filled_nevertheless(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path)
    reader = sqlite3.connect(tmp_path / "org.db")
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM Account").fetchone()
    org.populate({"Account": 20})
    assert org.count("Account") == 20
    reader.close()
    org.close()


@pytest.mark.parametrize("what", ["SELECT COUNT(*)", "INSERT INTO _setting SELECT 'i' || i, ''"])
def test_an_org_is_closed_at_once_whatever_another_thread_has_begun(tmp_path: Path, what: str) -> None:
    org = EmulatedOrg(tmp_path)
    endless = f"WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) {what} FROM n"
    begun, said = threading.Event(), []

    def ask() -> None:
        try:
            with org.database.transaction():
                org.database.set_setting("half", "written")
                begun.set()
                org.database.execute(endless)
        except OrgStoppingError as error:
            said.append(str(error))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert begun.wait(BOUND_SECONDS)
    org.close()
    asking.join(BOUND_SECONDS)
    assert len(said) == 1
    again = EmulatedOrg(tmp_path)
    assert again.database.setting("half") is None
    again.close()
