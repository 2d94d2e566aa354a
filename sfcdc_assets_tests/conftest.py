"""Settings of the whole suite, and how its items are spread over the workers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# Machines under load are slow, not wrong; a failing example prints how to run it again.
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")

LIVES = 40
CRASHES = 12
LIFE_GROUPS = 8
"""Pieces of the lives that workers take."""
SLOW_FIRST = ("sfcdc_assets_tests/cli/", "sfcdc_assets_tests/ui/", "sfcdc_assets_tests/pipeline/")
"""Folders whose files take minutes: begun last they would leave a worker idle."""

_LIFE = re.compile(r"::(?:test_a_life|test_tables_are_the_org_after_every_crash)\[(\d+)\]")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--lives 5000` in a spare night, `--life-seed 17` to see one again."""
    parser.addoption("--lives", type=int, default=LIVES, help=f"random lives of an org to replay (default: {LIVES})")
    parser.addoption("--crashes", type=int, default=CRASHES, help=f"random crashes (default: {CRASHES})")
    parser.addoption("--life-seed", type=int, default=None, help="the seed of the one life to replay")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files come first, and what fills the gaps at the end last; needs `--no-loadscope-reorder`."""
    items.sort(key=lambda item: _turn(item.nodeid))


def _turn(nodeid: str) -> int:
    if _LIFE.search(nodeid):
        return 2
    return 0 if nodeid.startswith(SLOW_FIRST) else 1


class ByFileButLives(LoadScopeScheduling):
    """A file's tests share fixtures, so they stay together; lives share nothing."""

    def _split_scope(self, nodeid: str) -> str:
        life = _LIFE.search(nodeid)
        return f"lives {int(life[1]) % LIFE_GROUPS}" if life else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """For every `--dist`."""
    return ByFileButLives(config, log)
