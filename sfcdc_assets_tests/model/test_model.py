"""The guarantees hold in every state of the model, and none of its rules can be left out."""

from __future__ import annotations

import pytest

from sfcdc_assets_tests.model.checker import check
from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.slices import MUTANTS, QUICK


@pytest.mark.parametrize("name", QUICK)
def test_the_guarantees_hold_in_every_state(name: str) -> None:
    found = check(QUICK[name])
    print(f"{name}: {found.states:,} states, {found.steps:,} steps, {found.ends:,} ends, {found.seconds:.1f} s")
    assert found.broken is None, "\n".join(found.way)
    assert found.ends > 0


@pytest.mark.parametrize("rule", Rule, ids=lambda rule: rule.name.lower())
def test_each_rule_is_needed_for_a_guarantee(rule: Rule) -> None:
    mutant = MUTANTS[rule]
    found = check(mutant.bounds, rule)
    print(f"{rule.name}: {found.states:,} states, {found.seconds:.1f} s; {len(found.way)} steps to {found.broken}")
    assert found.broken == mutant.breaks, "\n".join(found.way)
    assert check(mutant.bounds, most=found.states).broken is None
