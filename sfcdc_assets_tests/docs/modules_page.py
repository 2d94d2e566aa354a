"""docs/modules.md: every module of the package in one line, in the order of the way of the data."""

from __future__ import annotations

import ast
import re

from sfcdc_assets_tests.test_imports import NAMES, ORDER, place

_A_TITLE = 4
"""Fewer words than these are a title, and do not say what a module holds."""
_HEAD = """# Modules

Use this page to find a module of `sfcdc_assets/`. Each imports from its own place and from those above it
([Architecture](architecture.md#where-things-live) says what each place is for). A line is the beginning of the module's
docstring, which says more.
"""


def modules_page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for room in ORDER:
        names = [name for name in NAMES if place(name) == room]
        folders = dict.fromkeys(name if _is_package(name) else name.rpartition(".")[0] for name in names)
        for folder in folders:
            rows = [name for name in names if not _is_package(name) and name.rpartition(".")[0] == folder]
            about = _line(folder) if folder and _is_package(folder) else ""
            if rows and folder:
                parts.append(
                    f"\n## `{folder.replace('.', '/')}/`\n\n{about}\n\n| module | |\n|---|---|\n{_table(rows)}"
                )
            elif rows:
                parts.append(f"\n## `{room}.py`\n\n{_line(room)}\n")
    return "".join(parts)


def _table(names: list[str]) -> str:
    return "".join(f"| `{name.rpartition('.')[2]}` | {_line(name).replace('|', chr(92) + '|')} |\n" for name in names)


def _is_package(name: str) -> bool:
    return NAMES[name].name == "__init__.py"


def _line(name: str) -> str:
    """How a module's docstring begins: its first clause, or the next one too where that is a mere title."""
    text = " ".join((ast.get_docstring(ast.parse(NAMES[name].read_text())) or "").split())
    first = re.split(r"(?<=[^.][.?])\s", text, maxsplit=1)[0].rstrip(".")
    clauses = re.split(r"(?<=[:;])\s", re.sub(r"\s*\((?:[^()]|\([^()]*\))*\)", "", first))
    line = clauses.pop(0)
    while clauses and len(line.split()) < _A_TITLE:
        line = f"{line} {clauses.pop(0)}"
    return line.rstrip(":;")
