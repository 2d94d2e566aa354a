"""How large the house is: `python -m sfcdc_assets_tests.docs.house_figures [MODULES]` prints, of this checkout, its
modules, lines, circles, long functions, injected clocks, tests and words of docs; with MODULES the small ones, too.

A line is one of a file as it stands. A module has one importer where one other module of the package imports it. A word
is a token with a letter or a digit; hand-written is what `make reference` and `make bench` do not write.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from sfcdc_assets_tests.docs.reference import written_pages
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.test_imports import NAMES, ours

_SMALL, _LARGE, _LONG = 40, 300, 60
_WRITTEN = re.compile(r"<!-- (\w+): written by .*?<!-- end of \1 -->", re.DOTALL)
_CLOCK = re.compile(r"clock|now|now_s|now_ms|monotonic|timer")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def figures() -> Mapping[str, int]:
    """Return what there is of each."""
    modules = {name: path for name, path in NAMES.items() if path.name != "__init__.py"}
    lines = {name: len(path.read_text().splitlines()) for name, path in modules.items()}
    product = {name for name in modules if not name.startswith("emulator")}
    functions = [each for name in modules for each in _functions(modules[name])]
    tests = sorted((ROOT / "sfcdc_assets_tests").rglob("*.py"))
    return {
        "lines": sum(lines.values()),
        "lines without the emulator": sum(lines[name] for name in product),
        "modules": len(modules),
        "modules without the emulator": len(product),
        f"modules of {_SMALL} lines or less": sum(count <= _SMALL for count in lines.values()),
        f"modules of {_SMALL} lines or less with one importer": len(small_with_one_importer()),
        f"modules over {_LARGE} lines": sum(count > _LARGE for count in lines.values()),
        "modules with one importer": sum(len(found) == 1 for found in importers().values()),
        "circles": len(circles()),
        f"functions over {_LONG} lines": sum((each.end_lineno or 0) - each.lineno >= _LONG for each in functions),
        "functions with an injected clock": sum(any(map(_CLOCK.fullmatch, _parameters(each))) for each in functions),
        "most parameters": max(len(_parameters(each)) for each in functions),
        "lines of tests with monkeypatch": sum(path.read_text().count("monkeypatch.") for path in tests),
        "test functions": sum(each.name.startswith("test_") for path in tests for each in _functions(path)),
        "words of docs, hand-written": sum(hand_written().values()),
    }


def importers() -> Mapping[str, set[str]]:
    """Module -> those of the package that import it."""
    found: dict[str, set[str]] = {name: set() for name, path in NAMES.items() if path.name != "__init__.py"}
    for name, path in NAMES.items():
        for imported in ours(path) & found.keys():
            found[imported].add(name)
    return found


def small_with_one_importer() -> list[str]:
    """Return the modules that may belong into the one that imports them."""
    return sorted(
        name
        for name, found in importers().items()
        if len(found) == 1 and len(NAMES[name].read_text().splitlines()) <= _SMALL
    )


def circles() -> list[set[str]]:
    """Return the groups of modules in which each reaches each by imports."""
    reach = {name: set(ours(path)) for name, path in NAMES.items()}
    for middle, beyond in reach.items():
        for name, found in reach.items():
            if middle in found:
                reach[name] = found | beyond
    groups = {frozenset(other for other in found if name in reach[other]) for name, found in reach.items()}
    return [set(group) for group in groups if group]


def hand_written() -> Mapping[str, int]:
    """Page of docs/ -> its words, those left out that are written from code or by the benchmarks."""
    whole = {path for path in written_pages() if "written by `make reference` -->" not in path.read_text()}
    pages = (path for path in sorted((ROOT / "docs").glob("*.md")) if path not in whole)
    return {path.name: _words(_WRITTEN.sub("", path.read_text())) for path in pages}


def _words(text: str) -> int:
    return sum(any(letter.isalnum() for letter in token) for token in text.split())


def _functions(path: Path) -> Iterator[Function]:
    return (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, Function))


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


if __name__ == "__main__":
    for what, count in figures().items():
        print(f"| {what} | {count:,} |")
    if "MODULES" in sys.argv:
        print(*small_with_one_importer(), sep="\n")
