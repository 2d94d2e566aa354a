"""The documentation's site: `python -m sfcdc_assets_tests.docs.site` (`make docs`) builds it in build/site.

Links and anchors are checked by the builder, which fails on any that leads nowhere. Nothing is fetched, neither by the
build nor by a reader's browser: pictures are drawn here, and a page that would load something from another host is an
error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sfcdc_assets_tests.docs.pages import site_pages
from sfcdc_assets_tests.documentation import ROOT

PAGES, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"
SHIM = Path(__file__).with_name("iframe_worker.js")
"""What the search needs in a page that is opened as a file; the builder has it loaded from a host."""
_SHIM_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
_LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(https?:|//)[^>]*>")
_LINKED = re.compile(r"<link\b(?![^>]*rel=\"?canonical)[^>]*\bhref=\"?(https?:|//)[^>]*>")


class NotSelfContained(Exception):
    """A page would load a file from another host, which a reader without a network does not get."""

    def __init__(self, page: Path, element: str) -> None:
        self.page, self.element = page, element
        super().__init__(f"{page} loads something from another host: {element}. Ship the file with the site.")


def drawn(mermaid: str) -> str:
    """The picture as an SVG, on white: its lines are dark, and a page may be too."""
    import mermaidx  # noqa: PLC0415 - of the extra `docs`, which the tests of this module do without

    return mermaidx.render(mermaid).svg().replace("background-color: transparent", "background-color: white")


def lay_out(folder: Path) -> None:
    """Write the pages, their pictures and the images into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    for file in (ROOT / "LICENSE", Path(__file__).with_name("site.css")):
        shutil.copy(file, folder)
    for page in site_pages(drawn):
        (folder / page.name).write_text(page.text)
        for name, picture in page.pictures.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(picture)


def bring_shim(site: Path) -> None:
    """Have the pages load the shim of the site instead."""
    shutil.copy(SHIM, site / "assets" / SHIM.name)
    for page in site.rglob("*.html"):
        own = os.path.relpath(site / "assets" / SHIM.name, page.parent)
        page.write_text(page.read_text().replace(_SHIM_ELSEWHERE, own))


def check_self_contained(site: Path) -> None:
    """Raise `NotSelfContained` for a page that loads something from elsewhere. Links that a reader follows are none."""
    for page in sorted(site.rglob("*.html")):
        text = page.read_text()
        found = _LOADED.search(text) or _LINKED.search(text)
        if found:
            raise NotSelfContained(page, found[0])


def build() -> int:
    """Lay out, build, check. Returns the builder's exit code."""
    lay_out(PAGES)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=ROOT, check=False)
    if built.returncode == 0:
        bring_shim(SITE)
        check_self_contained(SITE)
        print(f"The site is in {SITE}: open {SITE / 'index.html'}.")
    return built.returncode


if __name__ == "__main__":
    sys.exit(build())
