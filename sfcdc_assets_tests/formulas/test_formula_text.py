"""What the text of a formula names, against what it was made from and against the emulated org's parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.formulas.parser import FormulaSyntaxError, parse_formula
from sfcdc_assets.emulator.formulas.syntax import Call, nodes_of, references_of
from sfcdc_assets.formulas.formula_text import read_formula
from sfcdc_assets_tests.formulas.generated import Generated, formulas

NAMES = ("Name", "Amount__c", "Account.Owner.Name", "Owner:User.Email", "$User.Id", "notes__c", "null_c", "True.X__c")


@given(formulas(NAMES))
def test_what_a_formula_names_is_what_it_was_made_of(formula: Generated):
    found = read_formula(formula.text)
    assert found is not None
    assert found.fields | found.variables == formula.references
    assert found.functions == formula.functions


@given(formulas(NAMES))
def test_it_is_what_the_emulated_orgs_parser_finds(formula: Generated):
    root = parse_formula(formula.text)
    found = read_formula(formula.text)
    assert found is not None
    assert found.fields | found.variables == {reference.key for reference in references_of(root)}
    assert found.functions == {node.function.lower() for node in nodes_of(root) if isinstance(node, Call)}


@given(st.text(st.sampled_from("aN1.$_\"'\\/*()+- ,é"), max_size=20))
def test_no_text_that_the_emulated_org_takes_is_read_otherwise(text: str):
    try:
        root = parse_formula(text)
    except FormulaSyntaxError:
        read_formula(text)
        return
    found = read_formula(text)
    assert found is not None
    assert found.fields | found.variables == {reference.key for reference in references_of(root)}


@pytest.mark.parametrize(
    "text", ["", "  ", "'open", '"open\\"', "1 + ? ", "IF(A__c", "A__c)", "é__c", "/* open", "a; b"]
)
def test_what_is_no_formula_is_not_read(text):
    assert read_formula(text) is None


def test_names_in_texts_and_comments_and_annotations_are_none():
    found = read_formula("[treatNullAsNull]IF(A__c, 'B__c \\' C__c', \"D__c\" /* E__c * / */) /* F__c */")
    assert found is not None
    assert (found.fields, found.functions) == ({"a__c"}, {"if"})


def test_functions_have_a_parenthesis_behind_them_and_not_has_none():
    found = read_formula("Today /* ( */ (\n) + NOT(Now) + NOT Left")
    assert found is not None
    assert (found.fields, found.functions) == ({"now", "left"}, {"today"})


def test_variables_stand_apart_from_fields():
    found = read_formula("IF($User.Id = OwnerId, $Setup.Limits__c.Most__c, 0)")
    assert found is not None
    assert found.variables == {"$user.id", "$setup.limits__c.most__c"}
    assert found.fields == {"ownerid"}
