"""`sfcdc demo`, small."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sfcdc_assets.cli.demo import HEALING_SECONDS, read_back_suspects
from sfcdc_assets.cli.demo_parts.demo_org import COPIED, OF_A_ROUND, POLLED, STREAMED, DemoOrgEnded, demo_org
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.clock import using
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.cli.command import console_script
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.simulated_clock import SimulatedClock


@pytest.mark.soak
def test_the_demo_ends_with_every_table_equal_to_the_org(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    command = [str(Path(sys.executable).with_name("sfcdc")), "demo", "--dir", str(tmp_path / "demo")]
    done = subprocess.run(
        [*command, "--records", "20", "--events", "60", "--rounds", "1"],
        cwd=tmp_path,
        env={**kept, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "every table equals the org │ yes" in done.stdout
    assert "│ 40, 35 of them polled" in done.stdout
    assert re.search(r"^First table: \w+, \d+ s after the org was up\.$", done.stderr, re.MULTILINE)
    proposed = re.search(r"Ask them: SFCDC_WAREHOUSE=(\S+) sfcdc (sql) '(.+)'$", " ".join(done.stderr.split()))
    assert proposed is not None
    asked = console_script(*proposed.groups()[1:], "--json", SFCDC_WAREHOUSE=str(tmp_path / proposed[1]))
    assert len(json.loads(asked.stdout)) == 5, asked.stderr


def test_the_demos_org_answers_from_a_process_of_its_own_that_ends_with_its_caller(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with demo_org(tmp_path, records=3, seed=1, holes=0.0) as org:
        (process,) = multiprocessing.active_children()
        assert org.served().records > 3 * len(STREAMED) + len(POLLED) / 2
        org.begin_round(5)
        transactions = org.end_round()
        facts = org.facts()
        assert facts.transactions == transactions > 0
        assert facts.published >= 5
        assert len(facts.entities) == len(set(COPIED)) == 40
        assert facts.pushed.total() == facts.orders.total() == 2 * OF_A_ROUND
        process.kill()
        process.join()
        with pytest.raises(DemoOrgEnded):
            org.facts()
    with demo_org(tmp_path / "other", records=3, seed=1, holes=0.0):
        (process,) = multiprocessing.active_children()
    process.join(BOUND_SECONDS)  # it may be busy filling the org
    assert not process.is_alive()


def test_suspect_records_are_waited_for_as_long_as_their_pause_and_no_longer(tmp_path: Path) -> None:
    """Some reasons mark no row, so that tables which equal the org are no sign that nothing is left to read back."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    suspect = NewSuspect("500000000000001AAA", Reason.SILENT_CHANGE, 3, "it may have been merged")
    syncs = 0

    def sync() -> int:
        nonlocal syncs
        syncs += 1
        if syncs == 4:
            ledger = Ledger.open_or_create(warehouse, "Case")
            ledger.heal(ledger.open_suspects(), {suspect.record_id: 4}, clock.now_ms())
        return 2

    with using(SimulatedClock()):
        assert read_back_suspects(warehouse, sync, lambda line: None) == 0
        Ledger.open_or_create(warehouse, "Case").note([suspect], "/data/ChangeEvents", 3, clock.now_ms())
        assert (read_back_suspects(warehouse, sync, lambda line: None), syncs) == (8, 4)
        never = NewSuspect("500000000000002AAA", Reason.SILENT_CHANGE, 5, "the org never shows it")
        Ledger.open_or_create(warehouse, "Case").note([never], "/data/ChangeEvents", 5, clock.now_ms())
        began = clock.current().monotonic()
        read_back_suspects(warehouse, sync, lambda line: None)
        assert HEALING_SECONDS <= clock.current().monotonic() - began <= 2 * HEALING_SECONDS
