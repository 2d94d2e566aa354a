"""The README and docs/ as tests see them: code blocks, links, tables, settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]

_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block. Words after the language say how it is tested: `covered-by=<test id>`, `needs=<module>`."""

    page: Path
    line: int
    language: str
    options: dict[str, str]
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def code_blocks(page: Path) -> list[CodeBlock]:
    """The page's blocks in order."""
    text = page.read_text()
    return [
        CodeBlock(
            page,
            text.count("\n", 0, found.start()) + 1,
            found.group(1),
            dict(option.split("=", 1) for option in found.group(2).split()),
            found.group(3),
        )
        for found in _BLOCK.finditer(text)
    ]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _BLOCK.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Targets of links and images, those to other sites left out."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in target]


def headings(page: Path) -> dict[str, str]:
    """Headings of a page by their anchors, as GitHub makes these."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {anchor(heading): heading.replace("`", "") for heading in found}


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Citation:
    """A place of docs/ that a file refers to: the page alone, with `#anchor`, or followed by headings in quotes."""

    page: str
    anchor: str
    headings: tuple[str, ...]


def citations(text: str) -> list[Citation]:
    """What a file cites of docs/. A comment or docstring may break its line anywhere in a citation."""
    plain = re.sub(r"\s*\n\s*(# )?", " ", text)
    return [
        Citation(page, anchor, tuple(re.findall(r'"([^"]+)"', sections)))
        for page, anchor, sections in re.findall(
            r'(?<![\w/])docs/([\w-]+\.md)(?:#([\w-]+))?((?:(?:,| and) "[^"]+")*)', plain
        )
    ]


def table_under(page: Path, heading: str) -> dict[str, str]:
    """First column (without backticks) -> second column of the first table below `## heading`."""
    section = page.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([^`]+)` \|([^|]*)\|", section, re.MULTILINE)
    return {name: reported.strip() for name, reported in rows}
