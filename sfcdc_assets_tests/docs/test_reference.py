"""Pages that are written from code say what the code is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfcdc_assets.emulator.control.setting_control import changeable
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.settings.settings import SECRETS
from sfcdc_assets_tests.docs.reference import written_pages
from sfcdc_assets_tests.docs.settings_reference import GROUPS, described
from sfcdc_assets_tests.documentation import PAGES, ROOT


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    """What would be written."""
    return written_pages()


@pytest.mark.parametrize(
    "name",
    [
        *("docs/settings.md", "docs/commands.md", "docs/scenarios.md"),
        *("README.md", "docs/architecture.md", "docs/operating.md", "docs/tables.md", "docs/faults.md"),
        "docs/emulator-resources.md",
    ],
)
def test_a_page_that_is_written_from_code_is_current(name: str, pages: dict[Path, str]) -> None:
    assert (ROOT / name).read_text() == pages[ROOT / name], "run `make reference` and commit what it writes"


def test_every_setting_has_a_text_and_one_heading() -> None:
    listed = [name for names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(described())


def test_every_setting_of_the_emulated_org_that_can_be_changed_is_on_its_page(pages: dict[Path, str]) -> None:
    page = pages[ROOT / "docs" / "emulator-resources.md"]
    assert not [name for name in changeable(OrgSettings()) if f"| `{name}` | `" not in page]


def test_secrets_are_marked_in_the_reference(pages: dict[Path, str]) -> None:
    lines = pages[ROOT / "docs" / "settings.md"].splitlines()
    marked = {line.split("`")[1] for line in lines if line.startswith("| `SFCDC_") and "Secret." in line}
    assert marked == SECRETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_target_that_a_page_names_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets
