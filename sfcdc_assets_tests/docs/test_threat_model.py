"""The threat model: each line is held by a test that is there; and what is installed may be shipped."""

from __future__ import annotations

import ast
import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from sfcdc_assets_tests.documentation import ROOT

pytestmark = pytest.mark.slow

HELD = re.compile(r"`(sfcdc_assets_tests/[\w/]+\.py)::(\w+)`")
MAY_BE_SHIPPED = re.compile(
    r"MIT|Apache|BSD|ISC|PSF|Python Software Foundation|MPL|Mozilla|CNRI|Unlicense|DFSG|Public Domain|Zlib",
    re.IGNORECASE,
)
LINKED_ONLY = {"psycopg2-binary"}
"""Under the LGPL: imported as they are, by nobody but `dagster-postgres`."""
EXTRAS = {"emulator", "sql", "deploy"}
"""Of a production host."""


def test_each_line_of_the_threat_model_names_a_test_that_is_there() -> None:
    held = HELD.findall((ROOT / "docs" / "threat-model.md").read_text())
    assert len(held) > 10
    for path, name in held:
        functions = [
            node for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
        ]
        assert name in {function.name for function in functions}, (path, name)


def dependencies() -> dict[str, metadata.Distribution]:
    """The distributions that a production host installs, by name."""
    waiting, found = [("sfcdc_assets", EXTRAS)], dict[str, metadata.Distribution]()
    while waiting:
        name, extras = waiting.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another system
        if name in found and not extras:
            continue
        found[name] = distribution
        for each in map(Requirement, distribution.requires or ()):
            wanted = [each.marker.evaluate({"extra": extra}) for extra in extras or {""}] if each.marker else [True]
            if any(wanted) and (each.name not in found or each.extras - extras):
                waiting.append((each.name, set(each.extras)))
    return found


@pytest.mark.parametrize("name", sorted(dependencies()))
def test_the_licence_of_a_dependency_lets_it_be_shipped(name: str) -> None:
    about = dependencies()[name].metadata
    said = [about.get("License-Expression") or "", about.get("License") or ""]
    said += [each for each in about.get_all("Classifier") or () if each.startswith("License")]
    assert MAY_BE_SHIPPED.search(" ".join(said)) or name in LINKED_ONLY, said
