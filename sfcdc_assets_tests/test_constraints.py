"""The releases that `make` installs: constraints.txt has one of everything that pyproject.toml names."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sfcdc_assets_tests.documentation import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINNED: dict[str, list[Requirement]] = {}
for line in (ROOT / "constraints.txt").read_text().splitlines():
    PINNED.setdefault(canonicalize_name(Requirement(line).name), []).append(Requirement(line))


@pytest.mark.parametrize("text", [*PROJECT["dependencies"], *(each for of in EXTRAS.values() for each in of)])
def test_make_installs_a_release_that_the_project_allows(text: str) -> None:
    wanted = Requirement(text)
    pins = PINNED.get(canonicalize_name(wanted.name), [])
    assert pins, f"constraints.txt lacks {wanted.name}: run `make lock`"
    for pin in pins:
        (release,) = pin.specifier
        assert release.operator == "=="
        assert wanted.specifier.contains(release.version), f"{text}, and {pin}: run `make lock`"


BY_DATE = {"certifi", "fsspec"}
"""Their releases are named by their month, and none is meant to break anything."""


@pytest.mark.parametrize("text", [*PROJECT["dependencies"], *(each for of in EXTRAS.values() for each in of)])
def test_a_release_that_may_break_us_is_not_taken_before_it_was_tried(text: str) -> None:
    wanted = Requirement(text)
    ends = {"<", "<=", "==", "~="} & {each.operator for each in wanted.specifier}
    assert bool(ends) is (canonicalize_name(wanted.name) not in BY_DATE), f"{text}: an end at the next major release"


def test_all_that_the_packages_here_need_is_pinned() -> None:
    """As far as this environment has it: what a package needs of others comes with it."""
    missing = set()
    for name in PINNED:
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # another system's, or of an extra that is not installed
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                missing |= {canonicalize_name(need.name)} - PINNED.keys()
    assert not missing


def test_no_target_installs_an_extra_that_there_is_not() -> None:
    makefile = (ROOT / "Makefile").read_text()
    of_targets = set(re.findall(r"\.venv/extra-([a-z]+)", makefile))
    (newcomers,) = re.findall(r"^EXTRAS = (.*)$", makefile, re.MULTILINE)
    assert of_targets | set(newcomers.split(",")) == EXTRAS.keys()
