"""The pages that are written from code: docs/settings.md, docs/commands.md, docs/scenarios.md, docs/modules.md, and
the README's table of settings.

`python -m sfcdc_assets_tests.docs.reference` (`make reference`) writes them. A test compares them with what it would
write.
"""

from __future__ import annotations

from pathlib import Path

from sfcdc_assets_tests.docs.commands_reference import commands_page
from sfcdc_assets_tests.docs.modules_page import modules_page
from sfcdc_assets_tests.docs.scenarios_page import scenarios_page
from sfcdc_assets_tests.docs.settings_reference import settings_page, settings_table
from sfcdc_assets_tests.documentation import ROOT

BEGIN, END = "<!-- settings: written by `make reference` -->\n\n", "\n\n<!-- end of settings -->"


def written_pages() -> dict[Path, str]:
    """Page -> the text that it should have."""
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return {
        ROOT / "docs" / "settings.md": settings_page(),
        ROOT / "docs" / "commands.md": commands_page(),
        ROOT / "docs" / "scenarios.md": scenarios_page(),
        ROOT / "docs" / "modules.md": modules_page(),
        readme: f"{before}{BEGIN}{settings_table()}{END}{after}",
    }


if __name__ == "__main__":
    for page, text in written_pages().items():
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
            print(f"{page.relative_to(ROOT)} is written.")
