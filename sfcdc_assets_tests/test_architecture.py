"""What docs/architecture.md says of folders and modules is there."""

from __future__ import annotations

import re

import pytest

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.test_imports import ORDER, PACKAGE

TEXT = (ROOT / "docs" / "architecture.md").read_text()
SECTION = TEXT.partition("## Where things live")[2]
PATHS = sorted({*re.findall(r"`((?:[a-z_]+/)+)`", SECTION), *re.findall(r"`([a-z_/]+\.py)`", TEXT)})


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_the_page_names_is_there(path: str) -> None:
    within = [PACKAGE, PACKAGE / "lake", ROOT]
    assert any((folder / path).exists() for folder in within), path


def test_every_place_is_explained_in_the_order_of_imports() -> None:
    rows = SECTION.partition("###")[0]
    named = [name.removesuffix("/").removesuffix(".py") for name in re.findall(r"`([a-z_/.]+)`", _first_cells(rows))]
    places = [place for place in ORDER if place not in {"definitions", "orgs", "__main__", "event_channels.tables"}]
    assert sorted(named) == sorted(places)
    of_rows = [each for each in named if each not in {"status", "sql", "explain", "consistent_cut"}]
    assert of_rows == [each for each in places if each in of_rows]


def _first_cells(rows: str) -> str:
    return "\n".join(line.split("|")[1] for line in rows.splitlines() if line.startswith("| `"))
