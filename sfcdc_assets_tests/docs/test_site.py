"""The site's pages are the repository's, in the form that its builder takes; none needs a network."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets_tests.docs.pages import OF_THE_ROOT, page_of, site_pages
from sfcdc_assets_tests.docs.site import NotSelfContained, bring_shim, check_self_contained
from sfcdc_assets_tests.documentation import PAGES, ROOT


def drawn(mermaid: str) -> str:
    """In place of a picture."""
    return f"<svg>{len(mermaid)}</svg>"


def listed(nav: Any) -> Iterator[str]:
    """The pages of a navigation, however deep."""
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from listed(each)


def test_every_page_is_in_the_navigation_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(listed(nav)) == sorted(page.name for page in site_pages(drawn))


def test_the_readme_leads_to_every_page_by_the_kinds_of_the_navigation() -> None:
    section = (ROOT / "README.md").read_text().split("## Where to go next")[1].split("\n## ")[0]
    links: dict[str, list[str]] = {}
    for kind, row in re.findall(r"^\| \*\*([\w ]+)\*\*(.*)$", section, re.MULTILINE):
        links.setdefault(kind, []).extend(re.findall(r"\]\(([^)]+)\)", row))
    names = {
        kind: [OF_THE_ROOT.get(each, each.removeprefix("docs/")) for each in found] for kind, found in links.items()
    }
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert names == {kind: list(listed(pages)) for group in nav for kind, pages in group.items() if kind != "Home"}


def test_a_code_block_keeps_its_language_and_nothing_else() -> None:
    page = page_of("```sh covered-by=a/test.py::test_x\nmake test\n```\n", "a.md", drawn)
    assert page.text == "```sh\nmake test\n```\n"


def test_a_picture_is_drawn_and_called_by_its_title() -> None:
    page = page_of("before\n\n```mermaid\nflowchart LR\n  accTitle: The way\n  a --> b\n```\n", "a.md", drawn)
    assert "![The way](pictures/a-1.svg)" in page.text
    assert list(page.pictures) == ["pictures/a-1.svg"]


def test_a_picture_without_a_title_is_refused() -> None:
    with pytest.raises(ValueError, match="accTitle"):
        page_of("```mermaid\nflowchart LR\n  a --> b\n```\n", "a.md", drawn)


@pytest.mark.parametrize(
    ("link", "on_the_site"),
    [
        ("[x](docs/tables.md)", "[x](tables.md)"),
        ("[x](../CHANGELOG.md)", "[x](changelog.md)"),
        ("[x](README.md#settings)", "[x](index.md#settings)"),
        ("![x](docs/images/a.png)", "![x](images/a.png)"),
        ("[x](#here)", "[x](#here)"),
        ("[x](https://example.com/docs/a.md)", "[x](https://example.com/docs/a.md)"),
        ("```text\n[x](docs/tables.md)\n```", "```text\n[x](docs/tables.md)\n```"),
    ],
)
def test_links_lead_to_the_pages_of_the_site(link: str, on_the_site: str) -> None:
    assert page_of(link, "a.md", drawn).text == on_the_site


def test_headings_have_the_anchors_that_github_gives_them() -> None:
    assert "## `history/<Entity>` {#historyentity}" in page_of("## `history/<Entity>`\n", "a.md", drawn).text


@pytest.mark.parametrize(
    "element",
    [
        '<script src="https://cdn.example.com/mermaid.js"></script>',
        '<link href="//fonts.example.com/css" rel="stylesheet">',
        '<img alt="a" src="https://example.com/a.png">',
    ],
)
def test_a_page_that_loads_something_from_another_host_is_found(element: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f"<html>{element}</html>")
    with pytest.raises(NotSelfContained, match=r"example\.com"):
        check_self_contained(tmp_path)


def test_a_link_that_a_reader_may_follow_needs_no_network_to_read_the_page(tmp_path: Path) -> None:
    canonical = '<link href="https://example.com/" rel="canonical"><link rel="canonical" href="https://example.com/">'
    (tmp_path / "index.html").write_text(f'{canonical}<a href="https://example.com">x</a><script src="a.js"></script>')
    check_self_contained(tmp_path)


def test_the_shim_of_the_search_is_loaded_from_the_site(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "deep").mkdir()
    page = tmp_path / "deep" / "page.html"
    page.write_text('<script src="https://unpkg.com/iframe-worker/shim"></script>')
    bring_shim(tmp_path)
    assert 'src="../assets/iframe_worker.js"' in page.read_text()
    assert (tmp_path / "assets" / "iframe_worker.js").exists()
    check_self_contained(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_form_that_github_shows_and_the_site_does_not(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"^ +```", text, re.MULTILINE), "a code block in a list: end the list before it"
    between = "".join(re.split(r"^```.*?^```$", text, flags=re.MULTILINE | re.DOTALL))
    assert not re.search(r"^(?!\* |\d+\. |[|#<>\s]).+\n(\* |\d+\. )", between, re.MULTILINE), (
        "an empty line before a list"
    )
    assert not re.search(r"^(?!\|).+\n\|", between, re.MULTILINE), "an empty line before a table"
