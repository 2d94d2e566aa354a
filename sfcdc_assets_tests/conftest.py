"""Settings of the whole suite, and how its items are spread over the workers."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Machines under load are slow, not wrong; a failing example prints how to run it again.
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")

LIVES = 200
SLOW_FIRST = ("sfcdc_assets_tests/cli/", "sfcdc_assets_tests/ui/", "sfcdc_assets_tests/pipeline/")
"""Folders whose files take minutes: begun last they would leave a worker idle."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--lives 5000` in a spare night, `--life-seed 17` to see one again."""
    parser.addoption("--lives", type=int, default=LIVES, help=f"random lives of an org to replay (default: {LIVES})")
    parser.addoption("--life-seed", type=int, default=None, help="the seed of the one life to replay")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For `--dist loadgroup`: a file's tests share fixtures, so they stay together, unless they say otherwise. Slow
    files come first, and what fills the gaps at the end last."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: _turn(item.nodeid))


def _turn(nodeid: str) -> int:
    if "test_lives" in nodeid:
        return 2
    return 0 if nodeid.startswith(SLOW_FIRST) else 1
