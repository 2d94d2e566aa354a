"""The pages of the site, from those of the repository: the same text, in the form that the site's builder takes.

GitHub shows the repository's files as they are, so these are written for it; some things differ on the site. The README
and the files beside it are pages like the others, headings have GitHub's anchors, code blocks have a language and
nothing else, and pictures that are written as text are drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets_tests.documentation import ROOT, anchor

OF_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Files beside docs/ that are pages too."""
PICTURES = "pictures"
Draw = Callable[[str], str]
"""A Mermaid text to an SVG."""

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)")


@dataclass(frozen=True)
class Page:
    """A page of the site, and the pictures that it shows, by their paths beside it."""

    name: str
    text: str
    pictures: dict[str, str]


def site_pages(draw: Draw, root: Path = ROOT) -> list[Page]:
    """Those of docs/ and of the root. Raises what `draw` raises."""
    of_docs = {path: path.name for path in sorted((root / "docs").glob("*.md"))}
    of_root = {root / name: page for name, page in OF_THE_ROOT.items()}
    return [page_of(path.read_text(), name, draw) for path, name in {**of_docs, **of_root}.items()]


def page_of(text: str, name: str, draw: Draw) -> Page:
    """One page as the site has it."""
    pictures: dict[str, str] = {}

    def fence(found: re.Match[str]) -> str:
        language, block = found.groups()
        if language != "mermaid":
            return f"```{language}\n{block}```"
        picture = f"{PICTURES}/{Path(name).stem}-{len(pictures) + 1}.svg"
        pictures[picture] = draw(block)
        return f"![{_title(block)}]({picture})"

    # Between the blocks only: what looks like a link or a heading in code is code.
    parts, end = [], 0
    for found in _FENCE.finditer(text):
        parts += [_prose(text[end : found.start()]), fence(found)]
        end = found.end()
    return Page(name, "".join([*parts, _prose(text[end:])]), pictures)


def _prose(text: str) -> str:
    return _HEADING.sub(lambda found: f"{found[0]} {{#{anchor(found[1])}}}", _LINK.sub(_on_the_site, text))


def _on_the_site(link: re.Match[str]) -> str:
    target = link[2].removeprefix("../").removeprefix("docs/")
    return f"{link[1]}{OF_THE_ROOT.get(target, target)}"


def _title(mermaid: str) -> str:
    """What Mermaid calls the picture's accessible title (`accTitle: ...`); every picture of the pages has one."""
    found = re.search(r"^\s*accTitle: *(.+)$", mermaid, re.MULTILINE)
    if found is None:
        raise ValueError(f"give the picture an accTitle line, for readers who do not see it:\n{mermaid}")
    return found[1].strip()
