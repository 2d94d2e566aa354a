"""What comments, docstrings and pages refer to is in the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sfcdc_assets_tests.documentation import PAGES, ROOT, Citation, citations, headings, links

DOCS = ROOT / "docs"


def text_files() -> list[Path]:
    """The files of the repository that people read, not the inputs of fuzzing; without git, those below the package and
    its tests."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.splitlines()
    if listed.returncode or not names:
        names = [str(path.relative_to(ROOT)) for path in ROOT.glob("sfcdc_assets*/**/*.py")]
    read = [name for name in names if not name.endswith((".png", ".tar.gz")) and "/fuzz/corpus/" not in name]
    return [ROOT / name for name in read if (ROOT / name).is_file()]


def problems(citation: Citation) -> list[str]:
    """What is wrong with it; nothing when it leads to a place that is there."""
    page = DOCS / citation.page
    if not page.exists():
        return [f"there is no docs/{citation.page}"]
    known = headings(page)
    found = [f"docs/{page.name} has no section {title!r}" for title in citation.headings if title not in known.values()]
    if citation.anchor and citation.anchor not in known:
        found.append(f"docs/{page.name} has no #{citation.anchor}")
    return found


def test_every_page_and_section_that_a_file_cites_is_there() -> None:
    wrong = {
        str(path.relative_to(ROOT)): reported
        for path in text_files()
        if (reported := [problem for citation in citations(path.read_text()) for problem in problems(citation)])
        and path != Path(__file__)
    }
    assert not wrong


def test_no_file_cites_notes_that_are_not_in_the_repository() -> None:
    # Neither the folder nor its sections, wherever a line is broken. This file does not name them itself.
    notes = re.compile(r"\bfact" + r"s(/| sections? \d| \d)", re.IGNORECASE)
    plain = {path: re.sub(r"\s*\n\s*(# )?", " ", path.read_text()) for path in text_files()}
    assert not {str(path.relative_to(ROOT)): found for path, text in plain.items() if (found := notes.findall(text))}


def test_code_cites_the_three_pages_that_explain_it() -> None:
    cited = {citation.page for path in text_files() for citation in citations(path.read_text())}
    assert {"salesforce-streams.md", "storage-layout.md", "dagster-notes.md"} <= cited


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_with_an_anchor_lead_to_a_heading(page: Path) -> None:
    for target in links(page):
        name, _, anchor = target.partition("#")
        if anchor:
            assert anchor in headings(page.parent / name if name else page), target


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("docs/no-such-page.md", "there is no docs/no-such-page.md"),
        ('docs/storage-layout.md, "Commit\n# protocols"', "has no section 'Commit protocols'"),
        ('docs/storage-layout.md, "Commit protocol" and "Nothing"', "has no section 'Nothing'"),
        ("docs/storage-layout.md#nothing", "has no #nothing"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, reported: str) -> None:
    assert [problem for citation in citations(text) for problem in problems(citation) if reported in problem]
