"""The pages that are written from code: docs/settings.md, docs/commands.md, docs/scenarios.md, docs/modules.md, and
tables within other pages (`written_tables`).

`python -m sfcdc_assets_tests.docs.reference` (`make reference`) writes them. A test compares them with what it would
write.
"""

from __future__ import annotations

from pathlib import Path

from sfcdc_assets_tests.docs.commands_reference import commands_page
from sfcdc_assets_tests.docs.modules_page import modules_page
from sfcdc_assets_tests.docs.scenarios_page import scenarios_page
from sfcdc_assets_tests.docs.settings_reference import settings_page
from sfcdc_assets_tests.docs.written_tables import PAGES, with_written_tables
from sfcdc_assets_tests.documentation import ROOT


def written_pages() -> dict[Path, str]:
    """Page -> the text that it should have."""
    return {
        ROOT / "docs" / "settings.md": settings_page(),
        ROOT / "docs" / "commands.md": commands_page(),
        ROOT / "docs" / "scenarios.md": scenarios_page(),
        ROOT / "docs" / "modules.md": modules_page(),
        **{page: with_written_tables(page) for page in PAGES},
    }


if __name__ == "__main__":
    for page, text in written_pages().items():
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
            print(f"{page.relative_to(ROOT)} is written.")
