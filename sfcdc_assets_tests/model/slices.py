"""Which parts of the model are tried, within which bounds: a slice has much of some steps and little of the others."""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.state import APART, GAP, ONE, SIBLINGS, Bounds

QUICK = {
    "landing": Bounds((SIBLINGS, APART), 1, landers=2, crashes=1),
    "a lost checkpoint": Bounds((SIBLINGS, APART), 1, landers=1, crashes=1, losses=1),
    "batches": Bounds((ONE,), 2, writers=2, crashes=1),
    "read-backs": Bounds((GAP,), 1, writers=2, crashes=1, reads=True),
    "copies": Bounds((ONE,), 1, writers=1, crashes=1, reads=True, from_nothing=True),
    "cuts and a consumer": Bounds((ONE,), 1, writers=1, reads=True, cuts=True, consumer=True, second_copies=1),
}
"""Those of `make test`: every state within the bounds."""

THOROUGH = {
    "landing": Bounds((ONE, SIBLINGS, APART), 3, landers=2, crashes=1),
    "a lost checkpoint": Bounds((SIBLINGS, APART), 2, landers=2, crashes=1, losses=2),
    "batches": Bounds((ONE, APART), 3, writers=2, crashes=2),
    "read-backs": Bounds((ONE, GAP), 2, writers=2, crashes=1, reads=True),
    "copies": Bounds((ONE, APART), 2, writers=2, crashes=1, reads=True, from_nothing=True),
    "cuts and a consumer": Bounds((SIBLINGS, GAP), 2, writers=2, reads=True, cuts=True, consumer=True),
    "ways back": Bounds((APART, GAP), 2, writers=1, crashes=1, reads=True, cuts=True, consumer=True, second_copies=1),
    "all": Bounds((SIBLINGS, GAP), 2, landers=1, writers=1, crashes=1, losses=1, reads=True, cuts=True, consumer=True),
}
"""Those of `make soak`."""
MOST = 2_000_000
"""States of one slice: of a larger one those that are nearest to its beginning are tried."""


@dataclass(frozen=True)
class Mutant:
    """The smallest bounds found within which leaving a rule out breaks a guarantee, and which."""

    bounds: Bounds
    breaks: str


_ONE_LANDER = Bounds((ONE,), 1, landers=1, crashes=1)
_SIBLINGS = Bounds((SIBLINGS,), 1, landers=1)
_LOSS = Bounds((ONE,), 2, landers=1, losses=1)
_COPY = Bounds((ONE,), 1, writers=1, reads=True, from_nothing=True)
_GAP = Bounds((GAP,), 1, writers=1, reads=True)

LOST, WHOLE, HISTORY = "a lost checkpoint is a planned event", "whole transactions", "history is whole"
PINNED, REPORTED = "reads are pinned to the stream", "changes are reported once"

MUTANTS = {
    Rule.ONE_COMMIT: Mutant(_ONE_LANDER, "landed before moved"),
    Rule.BEFORE_OPEN_GROUP: Mutant(_SIBLINGS, "landed before moved"),
    Rule.OPEN_GROUP_IS_KNOWN: Mutant(_ONE_LANDER, "once"),
    Rule.REDELIVERED_ARE_KNOWN: Mutant(_LOSS, "once"),
    Rule.SILENCE_PROVES_NOTHING: Mutant(Bounds((APART,), 1, landers=1), WHOLE),
    Rule.LANDING_IS_REFUSED: Mutant(Bounds((ONE,), 2, landers=2), "once"),
    Rule.NO_JUMP_TO_LATEST: Mutant(_LOSS, LOST),
    Rule.SUSPECT_BEFORE_BREAK: Mutant(Bounds((ONE,), 1, landers=1, crashes=1, losses=1), LOST),
    Rule.BLOCKED_BY_SUSPECT: Mutant(Bounds((ONE,), 3, landers=1, writers=1, losses=1), "nothing lost"),
    Rule.APPLY_COMPLETE: Mutant(Bounds((APART,), 1, writers=1), WHOLE),
    Rule.STATE_COMMITS_LAST: Mutant(Bounds((ONE,), 2, writers=1, crashes=1), HISTORY),
    Rule.NOTED_BEFORE_MARKED: Mutant(_GAP, "suspects are isolated"),
    Rule.WRITERS_ARE_FENCED: Mutant(Bounds((ONE,), 1, writers=2), HISTORY),
    Rule.LEFTOVERS_ARE_REMOVED: Mutant(Bounds((ONE,), 2, writers=1, crashes=1), HISTORY),
    Rule.BATCH_IS_REFUSED: Mutant(Bounds((ONE,), 2, writers=2), HISTORY),
    Rule.NOT_EVERY_READ: Mutant(_COPY, PINNED),
    Rule.WATERMARK_FIRST: Mutant(_COPY, PINNED),
    Rule.READ_STANDS_AT_WATERMARK: Mutant(Bounds((ONE, GAP), 2, writers=1, reads=True), PINNED),
    Rule.GOES_BACK: Mutant(Bounds((ONE,), 1, writers=1, reads=True, second_copies=1), HISTORY),
    Rule.CUT_STANDS: Mutant(Bounds((APART,), 1, writers=1, cuts=True), WHOLE),
    Rule.CUT_WAITS_FOR_ROWS_AHEAD: Mutant(
        Bounds((SIBLINGS,), 1, writers=1, reads=True, from_nothing=True, cuts=True), WHOLE
    ),
    Rule.TOKEN_IS_A_BATCH: Mutant(Bounds((GAP,), 1, writers=1, reads=True, cuts=True, consumer=True), REPORTED),
    Rule.GONE_BACK_IS_KEPT: Mutant(
        Bounds((ONE,), 1, writers=1, reads=True, cuts=True, consumer=True, second_copies=1), REPORTED
    ),
}
