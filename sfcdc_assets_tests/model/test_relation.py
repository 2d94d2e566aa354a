"""The relation by which the program's commits are followed allows what the model does, and refuses what it must not."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from sfcdc_assets_tests.model.model_trace import walk
from sfcdc_assets_tests.model.relation import Event, Followed, Landed, NotAllowed
from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.slices import HISTORY, LOST, MUTANTS, PINNED, QUICK, THOROUGH, WHOLE
from sfcdc_assets_tests.model.state import Bounds

WALKS = 30
WALKS_OF_A_MUTANT = 300
SHOWN_BY_COMMITS = {
    Rule.OPEN_GROUP_IS_KNOWN: "once",
    Rule.REDELIVERED_ARE_KNOWN: "once",
    Rule.LANDING_IS_REFUSED: "once",
    Rule.SILENCE_PROVES_NOTHING: WHOLE,
    Rule.SUSPECT_BEFORE_BREAK: LOST,
    Rule.APPLY_COMPLETE: WHOLE,
    Rule.STATE_COMMITS_LAST: HISTORY,
    Rule.WRITERS_ARE_FENCED: HISTORY,
    Rule.BATCH_IS_REFUSED: HISTORY,
    Rule.WATERMARK_FIRST: PINNED,
    Rule.GOES_BACK: PINNED,
    Rule.CUT_STANDS: WHOLE,
}
"""Mutants that do what a log shows to be wrong. What the others do wrong is a value, or an event that never comes: the
simulated histories compare both with the org."""


@pytest.mark.parametrize(
    "bounds", [*QUICK.values(), *THOROUGH.values()], ids=[*QUICK, *(f"more {n}" for n in THOROUGH)]
)
def test_what_the_model_does_is_allowed(bounds: Bounds) -> None:
    for seed in range(WALKS):
        walk(bounds, seed)


@pytest.mark.parametrize("rule", SHOWN_BY_COMMITS, ids=lambda rule: rule.name.lower())
def test_what_a_mutant_commits_is_refused(rule: Rule) -> None:
    refused: set[str] = set()
    for seed in range(WALKS_OF_A_MUTANT):
        try:
            walk(MUTANTS[rule].bounds, seed, rule)
        except NotAllowed as error:
            refused.add(error.guarantee)
            if SHOWN_BY_COMMITS[rule] in refused:
                return
    raise AssertionError(f"only {refused} failed")


@pytest.mark.parametrize(("complete", "is_allowed"), [(1, True), (3, False), (4, False)])
def test_a_transaction_in_the_midst_of_which_a_second_copy_comes_is_not_complete_before_its_end(
    complete: int, is_allowed: bool
) -> None:
    first, copy = Event(1, "a", "Account", "once"), Event(4, "a", "Account", "once")
    second, third, last = (Event(number, "b", "Account", number) for number in (2, 3, 5))
    followed = Followed()
    followed.take(Landed("c", 4, complete, rows={1: first, 2: second, 3: third, 4: copy}))
    with nullcontext() if is_allowed else pytest.raises(NotAllowed, match=WHOLE):
        followed.take(Landed("c", 5, complete, rows={5: last}))


@pytest.mark.parametrize(
    ("is_from_latest", "open_from", "is_allowed"), [(True, 1, True), (False, 1, False), (True, 2, False)]
)
def test_a_stream_is_resumed_after_an_open_replay_id_only_if_it_was_begun_with_it_at_latest(
    *, is_from_latest: bool, open_from: int, is_allowed: bool
) -> None:
    rows = {at: Event(at, str(at), "Account", at) for at in range(1, open_from + 1)}
    commit = Landed("c", open_from, 0, open_from, open_from, rows, is_from_latest=is_from_latest)
    with nullcontext() if is_allowed else pytest.raises(NotAllowed, match="the open replay id is not resumed"):
        Followed().take(commit)
