"""A process in which threads take turns at the tables, as a code server's do, keeps little memory for each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfcdc_assets.runtime.native_memory import SETTINGS
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS

THREADS, WARM, TICKS = 24, 8, 96
SCRIPT = f"""
import sys
{{first}}
import gc, re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.lake.maintenance.landing_month import LandingMonth

def megabytes():
    gc.collect()
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

month = LandingMonth(Warehouse(sys.argv[1]), {TICKS})
threads = [ThreadPoolExecutor(1) for _ in range({THREADS})]
for tick in range({WARM}):
    threads[0].submit(month._tick, tick + 1).result()
before = megabytes()
for tick in range({TICKS}):
    threads[tick % len(threads)].submit(month._tick, tick + 1).result()
print(before, megabytes())
"""
FIRST = "from sfcdc_assets.runtime.native_memory import keep_native_memory_small; keep_native_memory_small()"


def memory(folder: Path, first: str) -> tuple[float, float]:
    """Megabytes after the first ticks, all in one thread, and after those in all of them."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS and name != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(first=first), str(folder)],
        env={**kept, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after = map(float, done.stdout.split())
    return before, after


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux says how much memory is its own")
def test_threads_that_have_ticked_keep_less_than_half_of_what_they_would_keep(tmp_path: Path) -> None:
    """24 to 29 MB of 82 here: each thread also has what Python and its libraries keep for it."""
    (tmp_path / "small").mkdir()
    (tmp_path / "usual").mkdir()
    before, after = memory(tmp_path / "small", FIRST)
    usual_before, usual_after = memory(tmp_path / "usual", "")
    assert after - before < (usual_after - usual_before) / 2, f"{before:.0f} to {after:.0f} MB"


def test_a_persons_own_setting_counts() -> None:
    own = "import os; os.environ['ARROW_DEFAULT_MEMORY_POOL'] = 'jemalloc'"
    script = f"{own}\n{FIRST}\nprint(os.environ['ARROW_DEFAULT_MEMORY_POOL'])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=BOUND_SECONDS, check=True
    )
    assert done.stdout == "jemalloc\n"
