"""Each parser of bytes from outside, on the inputs that were kept: those that failed once, and those that reach its
code."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.fuzz import corpus
from sfcdc_assets_tests.fuzz.corpus import found, keep, named, unpack
from sfcdc_assets_tests.fuzz.targets import TARGETS, read_together


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_raises_nothing_but_what_it_says_on_any_kept_input(name: str) -> None:
    assert len(named(name)) >= 3
    for each in (*named(name), *found(name)):
        TARGETS[name](each)
    read_together()


@given(st.sets(st.binary(max_size=40)))
def test_what_is_kept_of_what_fuzzing_found_is_what_the_next_search_begins_with(inputs: set[bytes]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "CORPUS", Path(folder))
        keep("soql", inputs)
        assert sorted(found("soql")) == sorted(inputs)
        begun = Path(folder) / "begun"
        begun.mkdir()
        unpack("soql", begun)
        assert {file.read_bytes() for file in begun.iterdir()} == inputs


def test_make_fuzz_runs_every_target() -> None:
    (listed,) = re.findall(r"^fuzz:.*\n\tfor target in ([\w ]+);", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed.split() == list(TARGETS)


DEEP = 50_000


@pytest.mark.parametrize("name", ["json_payload", "avro_schema", "rest_json", "cometd", "toml", "soql"])
@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP,
        '{"a":' * DEEP,
        "[" + "9" * 5_000 + "]",
        '{"fields":[{"name":"a","type":' + "9" * 5_000 + "}]}",
        "a = " + "[" * DEEP,
        "a = " + "9" * 5_000,
        "SELECT Id FROM A WHERE " + "(" * DEEP,
    ],
    ids=["lists", "objects", "digits", "digits in a schema", "lists of TOML", "digits of TOML", "parentheses"],
)
def test_no_depth_and_no_number_of_digits_is_another_error(name: str, text: str) -> None:
    TARGETS[name](text.encode())
