"""Settings of the whole suite, and how its items are spread over the workers."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from dagster._core.storage.defs_state.base import set_defs_state_storage
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from sfcdc_assets.settings.setting_values import note_names
from sfcdc_assets_tests.cpu_budget import pytest_runtest_call, pytest_runtest_setup, pytest_terminal_summary

__all__ = ["pytest_runtest_call", "pytest_runtest_setup", "pytest_terminal_summary"]

# A worker of the suite has one core, and its tables are small: pools of threads cost more than they gain.
for pool in ("POLARS_MAX_THREADS", "TOKIO_WORKER_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(pool, "1")
# Tests start a hundred processes; each would compile the package again where a shell forbids to keep what was compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What is imported and collected stays to the end: Python's garbage collector would walk it again and again.
gc.disable()

# Machines under load are slow, not wrong; a failing example prints how to run it again. `make test` has the same
# examples each time, so that it says something of the change at hand; `make soak` looks for new ones.
settings.register_profile("suite", deadline=None, print_blob=True, max_examples=50, derandomize=True)
settings.register_profile("thorough", settings.get_profile("suite"), max_examples=2000, derandomize=False)
settings.load_profile("suite")

HISTORIES = 18
"""Histories in `make test`, seconds of CPU each, the dearest of its tests: these meet each kind of mishap, most of them
several times, and `make soak` has two thousand for what they do not meet."""
CRASHES = 12
HISTORY_GROUPS = 8
"""Pieces of the histories that workers take."""
LONGEST_FIRST = (
    "pipeline/simulation/test_month.py",
    "cli/test_wheel.py",
    "ui/test_dagster_ui.py",
    "pipeline/orchestration/test_several_orgs.py",
    "pipeline/simulation/test_long_run.py",
    "test_docs.py",
    "cli/test_demo.py",
    "pipeline/failures/test_killed_sync.py",
    "pipeline/apply/test_commit_point.py",
    "pipeline/failures/test_stopped_command.py",
    "orchestration/sensors/open_channels/",
    "pipeline/",
    "cli/",
    "orchestration/sensors/",
    "lake/maintenance/",
)
"""Files, then folders of files, that take longest: begun last they would leave workers idle. What starts processes of
its own waits for most of its time, and comes first of all, while other workers have files that do not."""


@pytest.fixture(autouse=True)
def _settings_named_as_they_are_found() -> None:
    """Errors of a test name settings by what it has set, and not by what another one has loaded."""
    note_names(None)


@pytest.fixture(autouse=True)
def _no_instance_of_an_earlier_test() -> Iterator[None]:
    """Definitions are loaded without the instance that an earlier test has entered twice and left once for Dagster."""
    with set_defs_state_storage(None):
        yield


_HISTORY = re.compile(
    r"::(?:test_a_simulated_history(?:_in_an_object_store)?|test_tables_are_the_org_after_every_crash"
    r"|test_a_simulated_org_history_over_cometd\w*|test_both_protocols_give_the_same_tables\w*"
    r"|test_a_warehouse_whose_protocol_changes\w*)\[(\d+)[\]-]"
)
_ALONE = re.compile(r"::(?:test_dying_between_any_two_commits|test_a_run_before_any_commit_of_another_work)")
"""Long tests of one file that share nothing."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--histories 5000` in a spare night, in pieces with `--first-history`, `--history-seed 17` to see one again."""
    parser.addoption(
        "--histories", type=int, default=HISTORIES, help=f"random histories of an org to replay (default: {HISTORIES})"
    )
    parser.addoption("--first-history", type=int, default=0, help="the seed of the first of them (default: 0)")
    parser.addoption(
        "--follow-every", type=int, default=100, help="follow the commits of every n-th history (default: 100)"
    )
    parser.addoption("--crashes", type=int, default=CRASHES, help=f"random crashes (default: {CRASHES})")
    parser.addoption("--history-seed", type=int, default=None, help="the seed of the one history to replay")
    parser.addoption("--requests", type=int, default=10_000, help="malformed requests to send (default: 10,000)")
    parser.addoption("--queries", type=int, default=10_000, help="random queries to ask (default: 10,000)")
    parser.addoption("--with-spark", action="store_true", help="apply every batch of the pipeline's tests in Spark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, and what fills the gaps at the end last; needs `--no-loadscope-reorder`."""
    items.sort(key=lambda item: _turn(item.nodeid))


def pytest_collection_finish() -> None:
    """From now on there is garbage, and only what is new is looked at."""
    gc.freeze()
    gc.enable()


def _turn(nodeid: str) -> int:
    if _HISTORY.search(nodeid):
        return len(LONGEST_FIRST) + 1
    path = nodeid.partition("sfcdc_assets_tests/")[2]
    return next((turn for turn, start in enumerate(LONGEST_FIRST) if path.startswith(start)), len(LONGEST_FIRST))


class ByFileButHistories(LoadScopeScheduling):
    """A file's tests share fixtures, so they stay together; simulated histories share none, nor do some long tests."""

    def _split_scope(self, nodeid: str) -> str:
        if history := _HISTORY.search(nodeid):
            return f"histories {int(history[1]) % HISTORY_GROUPS}"
        return nodeid if _ALONE.search(nodeid) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """For every `--dist`."""
    return ByFileButHistories(config, log)
