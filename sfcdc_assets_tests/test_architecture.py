"""What docs/architecture.md says of folders and modules is there."""

from __future__ import annotations

import re

import pytest

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.test_imports import PACKAGE

TEXT = (ROOT / "docs" / "architecture.md").read_text()
SECTION = TEXT.partition("## Where things live")[2]
PATHS = sorted({*re.findall(r"`((?:[a-z_]+/)+)`", SECTION), *re.findall(r"`([a-z_/]+\.py)`", TEXT)})


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_the_page_names_is_there(path: str) -> None:
    within = [PACKAGE, PACKAGE / "lake", ROOT]
    assert any((folder / path).exists() for folder in within), path
